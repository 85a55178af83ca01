// Adding a small tensor along the trailing dims, and its gradient. t: a trailing dim, d: a leading
// dim (one that b does not have).
//
// | bias_add x | b | y | |
// |---|---|---|---|
// | B | B | B | |
// | S(d) | B | S(d) | |
// | S(t) | S(t) | S(t) | the same dim, counted from the end |
// | P(sum) | P(sum) | P(sum) | together only: a whole b would be added p times |
// | P(max), P(min) in one, the other B | | as that | increasing in both |
//
// | reduce_to_bias dy | db | |
// |---|---|---|
// | B | B | |
// | S(d) | P(sum) | gradient of a B weight with split activations is partial |
// | S(t) | S(t) | |
// | P(sum) | P(sum) | |
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/pointwise/elementwise.h"

namespace sextant {
namespace {

std::vector<TensorType> infer_bias_add(Types inputs, const Attributes&) {
  const TensorType &x = inputs[0], &b = inputs[1];
  require_floating("bias_add", "x", x);
  require_same_dtype("bias_add", "b", b, "x", x);
  require_min_rank("bias_add", "b", b, 1);
  require_min_rank("bias_add", "x", x, b.shape.rank());
  require_shape("bias_add", "b", b, trailing_dims(x.shape, b.shape.rank()));
  return {x};
}

Rows bias_add_rows(Types inputs, Types, const Attributes&) {
  const std::size_t rank = inputs[0].shape.rank(), leading = rank - inputs[1].shape.rank();
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < leading; ++dim)
    rows.push_back({{Sbp::split(dim), kBroadcast}, {Sbp::split(dim)}});
  for (std::size_t dim = leading; dim < rank; ++dim)
    rows.push_back({{Sbp::split(dim), Sbp::split(dim - leading)}, {Sbp::split(dim)}});
  add_row(rows, {kPartialSum, kPartialSum}, kPartialSum);
  add_increasing(rows, 2, 0);
  add_increasing(rows, 2, 1);
  return rows;
}

void bias_add_gradient(GradientContext& context) {
  const TensorId dy = *context.output_gradient(0);
  if (context.wants(0)) context.set_input_gradient(0, dy);
  if (!context.wants(1)) return;
  const std::size_t rank = context.graph().tensor(context.input(1)).type.shape.rank();
  context.set_input_gradient(1, context.add("reduce_to_bias", {dy},
                                            {{"rank", static_cast<std::int64_t>(rank)},
                                             {"out_dtype", gradient_dtype(context, 1)}},
                                            1));
}

std::size_t kept_rank(const Attributes& attributes) {
  return static_cast<std::size_t>(attributes.integer_or("rank", 1));
}

std::vector<TensorType> infer_reduce(Types inputs, const Attributes& attributes) {
  const TensorType& dy = inputs[0];
  require_floating("reduce_to_bias", "dy", dy);
  require(attributes.integer_or("rank", 1) >= 1, ErrorCode::kBadInput,
          "reduce_to_bias: rank {} is not positive", attributes.integer_or("rank", 1));
  require_min_rank("reduce_to_bias", "dy", dy, kept_rank(attributes));
  return {{.shape = trailing_dims(dy.shape, kept_rank(attributes)),
           .dtype = dtype_or(attributes, "out_dtype", accumulator_type(dy.dtype))}};
}

Rows reduce_rows(Types inputs, Types, const Attributes& attributes) {
  const std::size_t rank = inputs[0].shape.rank(), leading = rank - kept_rank(attributes);
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < leading; ++dim)
    rows.push_back({{Sbp::split(dim)}, {kPartialSum}});
  for (std::size_t dim = leading; dim < rank; ++dim)
    rows.push_back({{Sbp::split(dim)}, {Sbp::split(dim - leading)}});
  rows.push_back({{kPartialSum}, {kPartialSum}});
  return rows;
}

}  // namespace

void add_bias(OperatorRegistry& registry) {
  registry.add({.kind = "bias_add",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_bias_add,
                .work = elementwise_pass<1>,
                .signatures = bias_add_rows,
                .gradient = bias_add_gradient,
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {f64({2, 5, 3}), f64({3})}},
                                                      {.inputs = {f64({2, 5, 3}), f64({5, 3})}}};
                }});
  registry.add({.kind = "reduce_to_bias",
                .attributes = {{"rank", kInteger, kOptional}, {"out_dtype", kText, kOptional}},
                .infer = infer_reduce,
                .work = reduction_pass<1>,
                .signatures = reduce_rows,
                .examples = [] {
                  return std::vector<OperatorExample>{
                      {.inputs = {f64({2, 5, 3})}},
                      {.inputs = {f64({2, 5, 3})}, .attributes = {{"rank", std::int64_t{2}}}}};
                }});
}

}  // namespace sextant
