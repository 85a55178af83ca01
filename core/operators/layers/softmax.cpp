// Softmax over any dims in pieces: the maximum (reduce_max) and the sum may be made of shards of
// the row, so that a split over the row needs two reductions of one value per row and no gather.
// The maximum is subtracted first, whatever is split: logits of 1000 do not overflow.
//
// The gradient of softmax is that of the whole composition, for x alone: the maximum carries none,
// and the way through the sum is in dx = y (dy - sum(y dy)), whose sum is a reduce_dot.
//
// d: a kept dim of x, d': its place in the result; r: a reduced dim.
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | reduce_sum_exp(x, max) | S(d), S(d') | S(d') | |
// |  | S(r), B | P(sum) | |
// | softmax(x, max, sum) | S(d), the rest S(d') | S(d) | |
// |  | S(r), the rest B | S(r) | |
// | softmax_grad(y, dy, dot) | S(d), S(d), S(d') | S(d) | |
// |  | S(r), S(r), B | S(r) | |
// |  | y P(sum), the rest B | P(sum) | linear in y |
// |  | B, P(sum), P(sum) | P(sum) | linear in dy and dot together |
//
// And all B everywhere.
#include "core/operators/layers/softmax.h"

#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/reductions/block_builder.h"
#include "core/operators/reductions/reduced_dims.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;
using Examples = std::vector<OperatorExample>;

// One value per row: the maximum in the type of x, sums in its accumulator type.
TensorType row_type(const ReducedDims& dims, const TensorType& x, DType dtype) {
  return {.shape = dims.result(x.shape), .dtype = dtype};
}

// reduce_sum_exp

std::vector<TensorType> infer_sum_exp(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  const ReducedDims dims = reduced_dims_of("reduce_sum_exp", inputs, attributes);
  require_floating("reduce_sum_exp", "x", x);
  require_type("reduce_sum_exp", "max", inputs[1], row_type(dims, x, x.dtype));
  return {row_type(dims, x, accumulator_type(x.dtype))};
}

Rows sum_exp_rows(Types inputs, Types, const Attributes& attributes) {
  const ReducedDims dims = reduced_dims_of("reduce_sum_exp", inputs, attributes);
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < dims.rank(); ++dim) {
    const Sbp of_row = dims.word_of_result(dim);
    rows.push_back({{Sbp::split(dim), of_row}, {dims.contains(dim) ? kPartialSum : of_row}});
  }
  return rows;
}

// softmax

std::vector<TensorType> infer_softmax(Types inputs, const Attributes& attributes) {
  const TensorType& x = inputs[0];
  const ReducedDims dims = reduced_dims_of("softmax", inputs, attributes);
  require_floating("softmax", "x", x);
  require_type("softmax", "max", inputs[1], row_type(dims, x, x.dtype));
  require_type("softmax", "sum", inputs[2], row_type(dims, x, accumulator_type(x.dtype)));
  return {x};
}

Rows softmax_rows(Types inputs, Types, const Attributes& attributes) {
  const ReducedDims dims = reduced_dims_of("softmax", inputs, attributes);
  Rows rows{all_broadcast(3, 1)};
  for (std::size_t dim = 0; dim < dims.rank(); ++dim) {
    const Sbp of_row = dims.word_of_result(dim);
    rows.push_back({{Sbp::split(dim), of_row, of_row}, {Sbp::split(dim)}});
  }
  return rows;
}

void softmax_gradient(GradientContext& context) {
  const TensorId y = context.output(0);
  const Attributes& attributes = context.op().attributes;
  const TensorId dy =
      in_dtype(context, *context.output_gradient(0), context.graph().tensor(y).type.dtype, 0);
  const TensorId dot = context.add("reduce_dot", {y, dy}, attributes, 0);
  context.set_input_gradient(0, context.add("softmax_grad", {y, dy, dot}, attributes, 0));
}

// softmax_grad

std::vector<TensorType> infer_softmax_grad(Types inputs, const Attributes& attributes) {
  const TensorType& y = inputs[0];
  const ReducedDims dims = reduced_dims_of("softmax_grad", inputs, attributes);
  require_floating("softmax_grad", "y", y);
  require_type("softmax_grad", "dy", inputs[1], y);
  require_type("softmax_grad", "dot", inputs[2], row_type(dims, y, accumulator_type(y.dtype)));
  return {y};
}

Rows softmax_grad_rows(Types inputs, Types, const Attributes& attributes) {
  const ReducedDims dims = reduced_dims_of("softmax_grad", inputs, attributes);
  Rows rows{all_broadcast(3, 1)};
  for (std::size_t dim = 0; dim < dims.rank(); ++dim)
    rows.push_back(
        {{Sbp::split(dim), Sbp::split(dim), dims.word_of_result(dim)}, {Sbp::split(dim)}});
  rows.push_back({{kPartialSum, kBroadcast, kBroadcast}, {kPartialSum}});
  rows.push_back({{kBroadcast, kPartialSum, kPartialSum}, {kPartialSum}});
  return rows;
}

// Examples: 10 rows of 7 and rows along the middle dim.
constexpr std::pair<std::int64_t, std::int64_t> kAnyValue = {-3, 3}, kRowMax = {3, 5},
                                                kRowSum = {1, 9};
TensorType cube() { return f64({2, 5, 4}); }
Attributes along(std::int64_t dim) { return {{"dims", Integers{dim}}}; }

}  // namespace

TensorId softmax(LogicalGraph& graph, TensorId x, std::int64_t dim, const std::string& name,
                 int layer) {
  BlockBuilder block(graph, name, layer);
  const auto normal =
      static_cast<std::int64_t>(normal_dim("softmax", dim, graph.tensor(x).type.shape.rank()));
  const TensorId max = block.add("reduce_max", "max", {x}, along(normal));
  const TensorId sum = block.add("reduce_sum_exp", "sum_exp", {x, max}, along(normal));
  return block.add("softmax", "", {x, max, sum}, along(normal));
}

void add_softmax(OperatorRegistry& registry) {
  registry.add({.kind = "reduce_sum_exp",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
                .infer = infer_sum_exp,
                .work = reduction_pass<3>,
                .signatures = sum_exp_rows,
                .examples = [] {
                  return Examples{{.inputs = {cube(), f64({2, 4})},
                                   .attributes = along(1),
                                   .ranges = {kAnyValue, kRowMax}},
                                  {.inputs = {cube(), f64({2, 5, 1})},
                                   .attributes = {{"dims", Integers{-1}}, {"keep_dims", true}},
                                   .ranges = {kAnyValue, kRowMax}}};
                }});
  registry.add({.kind = "softmax",
                .role = OperatorRole::kSoftmax,
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
                .infer = infer_softmax,
                .work = elementwise_pass<3>,
                .signatures = softmax_rows,
                .gradient = softmax_gradient,
                .examples = [] {
                  return Examples{{.inputs = {cube(), f64({2, 4}), f64({2, 4})},
                                   .attributes = along(1),
                                   .ranges = {kAnyValue, kRowMax, kRowSum}},
                                  {.inputs = {f64({7}), f64(Shape()), f64(Shape())},
                                   .attributes = along(-1),
                                   .ranges = {kAnyValue, kRowMax, kRowSum}}};
                }});
  registry.add(
      {.kind = "softmax_grad",
       .min_inputs = 3,
       .max_inputs = 3,
       .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
       .infer = infer_softmax_grad,
       .work = elementwise_pass<2>,
       .signatures = softmax_grad_rows,
       .examples = [] {
         return Examples{{.inputs = {cube(), cube(), f64({2, 4})}, .attributes = along(1)}};
       }});
}

}  // namespace sextant
