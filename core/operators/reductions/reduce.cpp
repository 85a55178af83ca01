// Reductions over any dims, what repeats their result (expand), and the pieces of their gradients.
// d: a kept dim of x, d': its place in the result; r: a reduced dim.
//
// | kind(operands) | words in | words out | |
// |---|---|---|---|
// | reduce_sum, reduce_mean(x) | S(d) | S(d') | |
// |  | S(r) | P(sum) | a mean divides by the global count |
// |  | P(sum) | P(sum) | linear; not of bool, whose sum saturates, nor of integers to a wider type |
// | reduce_max, reduce_min(x) | S(d) | S(d') | |
// |  | S(r) | P(max), P(min) | |
// |  | P(max), P(min) | as x | a maximum of maxima, a minimum of minima |
// | expand(x) | S(d') | S(d) | |
// |  | B | S(r) | each device repeats for its part |
// |  | any P | as x | |
// | reduce_dot(a, b) | S(d) both | S(d') | |
// |  | S(r) both | P(sum) | |
// |  | P(sum) in one, B | P(sum) | bilinear |
// | extremum_count(x, y) | S(d), S(d') | S(d') | |
// |  | S(r), B | P(sum) | |
// | extremum_grad(x, y, count, dy) | S(d), the rest S(d') | S(d) | |
// |  | S(r), the rest B | S(r) | |
// |  | dy any P, the rest B | as dy | dy times 1 / count or 0 |
//
// Sums of integers wrap around, so those of parts are right up to that, in the type of x and in
// narrower ones. In a wider type a sum that left the type of x would not wrap: P(sum) is made whole
// before. i64 in floating types would not wrap either, so S(r) has no row there.
//
// And all B everywhere. Where each element is its own reduction (extents of 1, no dims) any P
// passes. There is no product: no word says that a value is the product of its parts.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/reductions/reduced_dims.h"
#include "core/operators/rules.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sextant {
namespace {

using Integers = std::vector<std::int64_t>;
using Examples = std::vector<OperatorExample>;

TensorType result_type(std::string_view kind, Types inputs, const Attributes& attributes,
                       DType dtype) {
  require_computed(kind, "x", inputs[0]);
  return {.shape = reduced_dims_of(kind, inputs, attributes).result(inputs[0].shape),
          .dtype = dtype};
}

// The dims of the operator that is being differentiated, for the operators of its gradient.
Attributes same_dims(const GradientContext& context) {
  const Attributes& own = context.op().attributes;
  return {{"dims", own.integers("dims")}, {"keep_dims", own.boolean_or("keep_dims", false)}};
}

// B, and the splits of every dim of x: the first `like_x` inputs are split as x, the others as the
// result; `of_reduced` is the word of the output when a reduced dim is split.
Rows split_rows(const ReducedDims& dims, std::size_t num_inputs, std::size_t like_x,
                Sbp of_reduced) {
  Rows rows{all_broadcast(num_inputs, 1)};
  for (std::size_t dim = 0; dim < dims.rank(); ++dim) {
    std::vector<Sbp> words(num_inputs, dims.word_of_result(dim));
    std::fill_n(words.begin(), like_x, Sbp::split(dim));
    rows.push_back(
        {std::move(words), {dims.contains(dim) ? of_reduced : dims.word_of_result(dim)}});
  }
  return rows;
}

// One input partial, the others B.
SbpSignature linear_row(std::size_t num_inputs, std::size_t input) {
  SbpSignature row = all_broadcast(num_inputs, 1);
  row.inputs[input] = row.outputs[0] = kPartialSum;
  return row;
}

// Whether the sum of what parts become in another type is what their sum becomes.
bool passes_sums(DType from, DType to) {
  if (is_floating(from)) return true;
  return from != DType::kBool && !is_floating(to) && holds_every_value(from, to);
}

// What reduces one element to itself lets every partial value pass, if the type of the result lets
// it: adds the rows not there yet. Integers wrap around in narrower types, so extrema do not pass
// there.
Rows with_identity_rows(Rows rows, const ReducedDims& dims, const TensorType& x,
                        const TensorType& y) {
  if (dims.count(x.shape) != 1) return rows;
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin}) {
    SbpSignature row{{partial}, {partial}};
    const bool passes = partial == kPartialSum
                            ? passes_sums(x.dtype, y.dtype)
                            : is_floating(y.dtype) || holds_every_value(y.dtype, x.dtype);
    if (passes && std::find(rows.begin(), rows.end(), row) == rows.end())
      rows.push_back(std::move(row));
  }
  return rows;
}

// reduce_sum

// Sums of floating types stay floating: a truncated sum is not the sum of truncated parts.
DType sum_dtype(const TensorType& x, const Attributes& attributes) {
  const bool is_named = attributes.contains("out_dtype");
  require(is_named || x.dtype != DType::kBool, ErrorCode::kBadInput,
          "reduce_sum: x is {}, so out_dtype must say in which type to count", to_text(x));
  const DType dtype = dtype_or(attributes, "out_dtype", x.dtype);
  require(dtype != DType::kBool && (is_floating(dtype) || !is_floating(x.dtype)),
          ErrorCode::kBadInput, "reduce_sum: out_dtype {} for x {}, wanted {}", to_string(dtype),
          to_text(x), is_floating(x.dtype) ? "a floating type" : "an integer or floating type");
  return dtype;
}

std::vector<TensorType> infer_sum(Types inputs, const Attributes& attributes) {
  return {result_type("reduce_sum", inputs, attributes, sum_dtype(inputs[0], attributes))};
}

Rows sum_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const ReducedDims dims = reduced_dims_of("reduce_sum", inputs, attributes);
  const DType from = inputs[0].dtype, to = outputs[0].dtype;
  Rows rows = split_rows(dims, 1, 1, kPartialSum);
  if (from == DType::kI64 && is_floating(to))
    std::erase_if(rows, [](const SbpSignature& row) { return row.outputs[0] == kPartialSum; });
  if (passes_sums(from, to)) rows.push_back(linear_row(1, 0));
  return with_identity_rows(std::move(rows), dims, inputs[0], outputs[0]);
}

const TensorType& type_of_input(const GradientContext& context, std::size_t input) {
  return context.graph().tensor(context.input(input)).type;
}

// `gradient`, one per element of the result, repeated for the elements of the input.
TensorId expanded(GradientContext& context, TensorId gradient, std::size_t input) {
  Attributes attributes = same_dims(context);
  attributes.set("shape", type_of_input(context, input).shape.extents());
  return context.add("expand", {gradient}, std::move(attributes), input);
}

void sum_gradient(GradientContext& context) {
  context.set_input_gradient(0, expanded(context, *context.output_gradient(0), 0));
}

Examples sum_examples() {
  return {
      {.inputs = {f64({2, 5, 4})}, .attributes = {{"dims", Integers{1}}}},
      {.inputs = {f64({2, 5, 4})}, .attributes = {{"dims", Integers{0, -1}}, {"keep_dims", true}}},
      {.inputs = {f64({7})}, .attributes = {{"dims", Integers{0}}}},
      {.inputs = {f64({3, 5})}, .attributes = {{"dims", Integers{}}}},
      {.inputs = {i32({5, 3})}, .attributes = {{"dims", Integers{0}}, {"out_dtype", "i64"}}},
      {.inputs = {i32({5, 3})}, .attributes = {{"dims", Integers{0}}}},
      {.inputs = {{{5, 3}, DType::kI64}},
       .attributes = {{"dims", Integers{0}}, {"out_dtype", "f64"}}},
      {.inputs = {{{5, 1}, DType::kI64}},
       .attributes = {{"dims", Integers{1}}, {"out_dtype", "i32"}}},
      {.inputs = {{{19, 2}, DType::kBool}},
       .attributes = {{"dims", Integers{1}}, {"out_dtype", "i32"}},
       .ranges = {{0, 1}}}};
}

// reduce_mean

std::vector<TensorType> infer_mean(Types inputs, const Attributes& attributes) {
  require_floating("reduce_mean", "x", inputs[0]);
  const DType dtype = dtype_or(attributes, "out_dtype", inputs[0].dtype);
  require(is_floating(dtype), ErrorCode::kBadInput,
          "reduce_mean: out_dtype {}, wanted a floating type", to_string(dtype));
  return {result_type("reduce_mean", inputs, attributes, dtype)};
}

Rows mean_rows(Types inputs, Types outputs, const Attributes& attributes) {
  const ReducedDims dims = reduced_dims_of("reduce_mean", inputs, attributes);
  Rows rows = split_rows(dims, 1, 1, kPartialSum);
  rows.push_back(linear_row(1, 0));
  return with_identity_rows(std::move(rows), dims, inputs[0], outputs[0]);
}

// Of a mean of nothing there are no elements to pass a gradient to.
void mean_gradient(GradientContext& context) {
  const Shape& x = type_of_input(context, 0).shape;
  const std::int64_t count = ReducedDims("reduce_mean", same_dims(context), x.rank()).count(x);
  const double factor = count == 0 ? 0.0 : 1.0 / static_cast<double>(count);
  const TensorId share =
      context.add("scale", {*context.output_gradient(0)}, {{"factor", factor}}, 0);
  context.set_input_gradient(0, expanded(context, share, 0));
}

Examples mean_examples() {
  return {
      {.inputs = {f64({2, 5, 4})}, .attributes = {{"dims", Integers{1}}}},
      {.inputs = {f64({2, 5, 4})}, .attributes = {{"dims", Integers{-1, 0}}, {"keep_dims", true}}},
      {.inputs = {f64({1, 4})}, .attributes = {{"dims", Integers{0, 1}}}},
      {.inputs = {f64({0, 3, 5})}, .attributes = {{"dims", Integers{1}}}}};
}

// reduce_max, reduce_min

template <ReduceOp kOp>
struct Extremum {
  static constexpr std::string_view kKind = kOp == ReduceOp::kMax ? "reduce_max" : "reduce_min";
  static constexpr Sbp kPartial{.kind = Sbp::Kind::kPartial, .reduce = kOp};

  static std::vector<TensorType> infer(Types inputs, const Attributes& attributes) {
    return {result_type(kKind, inputs, attributes, inputs[0].dtype)};
  }

  static Rows rows(Types inputs, Types outputs, const Attributes& attributes) {
    const ReducedDims dims = reduced_dims_of(kKind, inputs, attributes);
    Rows rows = split_rows(dims, 1, 1, kPartial);
    rows.push_back({{kPartial}, {kPartial}});
    return with_identity_rows(std::move(rows), dims, inputs[0], outputs[0]);
  }

  // Equal elements share the gradient; which are equal is decided on the global tensor.
  static void gradient(GradientContext& context) {
    const TensorId x = context.input(0), y = context.output(0);
    const TensorId count = context.add("extremum_count", {x, y}, same_dims(context), 0);
    context.set_input_gradient(
        0, context.add("extremum_grad", {x, y, count, *context.output_gradient(0)},
                       same_dims(context), 0));
  }
};

Examples extremum_examples() {
  return {
      {.inputs = {f64({2, 5, 4})}, .attributes = {{"dims", Integers{1}}}},
      {.inputs = {f64({2, 5, 4})}, .attributes = {{"dims", Integers{0, -1}}, {"keep_dims", true}}},
      {.inputs = {f64({7})}, .attributes = {{"dims", Integers{0}}}},
      {.inputs = {i32({5, 3})}, .attributes = {{"dims", Integers{0}}}},
      {.inputs = {{{19, 2}, DType::kBool}},
       .attributes = {{"dims", Integers{1}}},
       .ranges = {{0, 1}}}};
}

// extremum_count, extremum_grad: x beside its extremum y

std::vector<TensorType> infer_extremum_count(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "extremum_count";
  const TensorType& x = inputs[0];
  require_floating(kind, "x", x);
  require_type(kind, "y", inputs[1], result_type(kind, inputs, attributes, x.dtype));
  return {result_type(kind, inputs, attributes, accumulator_type(x.dtype))};
}

Rows extremum_count_rows(Types inputs, Types, const Attributes& attributes) {
  return split_rows(reduced_dims_of("extremum_count", inputs, attributes), 2, 1, kPartialSum);
}

// dy may be wider than x: gradients of 16-bit parameters are f32.
std::vector<TensorType> infer_extremum_grad(Types inputs, const Attributes& attributes) {
  constexpr std::string_view kind = "extremum_grad";
  const TensorType& x = inputs[0];
  require_floating(kind, "x", x);
  require_type(kind, "y", inputs[1], result_type(kind, inputs, attributes, x.dtype));
  require_type(kind, "count", inputs[2],
               result_type(kind, inputs, attributes, accumulator_type(x.dtype)));
  require_floating(kind, "dy", inputs[3]);
  require_shape(kind, "dy", inputs[3], inputs[1].shape);
  return {{.shape = x.shape, .dtype = inputs[3].dtype}};
}

Rows extremum_grad_rows(Types inputs, Types, const Attributes& attributes) {
  const ReducedDims dims = reduced_dims_of("extremum_grad", inputs, attributes);
  Rows rows = split_rows(dims, 4, 1, kBroadcast);
  for (std::size_t dim = 0; dim < dims.rank(); ++dim) rows[1 + dim].outputs = {Sbp::split(dim)};
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{kBroadcast, kBroadcast, kBroadcast, partial}, {partial}});
  return rows;
}

// reduce_dot

std::vector<TensorType> infer_dot(Types inputs, const Attributes& attributes) {
  require_floating("reduce_dot", "a", inputs[0]);
  require_type("reduce_dot", "b", inputs[1], inputs[0]);
  const DType dtype = dtype_or(attributes, "out_dtype", accumulator_type(inputs[0].dtype));
  require(is_floating(dtype), ErrorCode::kBadInput,
          "reduce_dot: out_dtype {}, wanted a floating type", to_string(dtype));
  return {result_type("reduce_dot", inputs, attributes, dtype)};
}

Rows dot_rows(Types inputs, Types, const Attributes& attributes) {
  Rows rows = split_rows(reduced_dims_of("reduce_dot", inputs, attributes), 2, 2, kPartialSum);
  for (std::size_t input : {0, 1}) rows.push_back(linear_row(2, input));
  return rows;
}

// da = dy b and db = dy a, in the type of a and b.
void dot_gradient(GradientContext& context) {
  const DType dtype = type_of_input(context, 0).dtype;
  for (std::size_t input : {0, 1}) {
    if (!context.wants(input)) continue;
    const TensorId dy = in_dtype(context, *context.output_gradient(0), dtype, input);
    context.set_input_gradient(
        input,
        context.add("mul", {expanded(context, dy, input), context.input(1 - input)}, {}, input));
  }
}

Examples dot_examples() {
  return {{.inputs = {f64({2, 5, 4}), f64({2, 5, 4})}, .attributes = {{"dims", Integers{1}}}},
          {.inputs = {f64({7}), f64({7})}, .attributes = {{"dims", Integers{0}}}}};
}

// expand

std::vector<TensorType> infer_expand(Types inputs, const Attributes& attributes) {
  Shape shape(attributes.integers("shape"));
  const ReducedDims dims("expand", attributes, shape.rank());
  require_shape("expand", "x", inputs[0], dims.result(shape));
  return {{.shape = std::move(shape), .dtype = inputs[0].dtype}};
}

Rows expand_rows(Types, Types outputs, const Attributes& attributes) {
  const ReducedDims dims("expand", attributes, outputs[0].shape.rank());
  Rows rows{all_broadcast(1, 1)};
  for (std::size_t dim = 0; dim < dims.rank(); ++dim)
    rows.push_back({{dims.word_of_result(dim)}, {Sbp::split(dim)}});
  for (const Sbp partial : {kPartialSum, kPartialMax, kPartialMin})
    rows.push_back({{partial}, {partial}});
  return rows;
}

void expand_gradient(GradientContext& context) {
  context.set_input_gradient(
      0, context.add("reduce_sum", {*context.output_gradient(0)}, same_dims(context), 0));
}

Examples expand_examples() {
  return {
      {.inputs = {f64({2, 4})},
       .attributes = {{"shape", Integers{2, 5, 4}}, {"dims", Integers{1}}}},
      {.inputs = {f64({1, 1, 7})},
       .attributes = {{"shape", Integers{3, 5, 7}}, {"dims", Integers{0, 1}}, {"keep_dims", true}}},
      {.inputs = {i32(Shape())}, .attributes = {{"shape", Integers{5}}, {"dims", Integers{0}}}}};
}

}  // namespace

void add_reduce(OperatorRegistry& registry) {
  registry.add({.kind = "reduce_sum",
                .attributes = {{"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional},
                               {"out_dtype", kText, kOptional}},
                .infer = infer_sum,
                .work = reduction_pass<1>,
                .signatures = sum_rows,
                .gradient = sum_gradient,
                .examples = sum_examples});
  registry.add({.kind = "reduce_mean",
                .attributes = {{"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional},
                               {"out_dtype", kText, kOptional}},
                .infer = infer_mean,
                .work = reduction_pass<1>,
                .signatures = mean_rows,
                .gradient = mean_gradient,
                .needs_offsets = true,
                .examples = mean_examples});
  registry.add({.kind = "reduce_max",
                .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
                .infer = Extremum<ReduceOp::kMax>::infer,
                .work = reduction_pass<1>,
                .signatures = Extremum<ReduceOp::kMax>::rows,
                .gradient = Extremum<ReduceOp::kMax>::gradient,
                .examples = extremum_examples});
  registry.add({.kind = "reduce_min",
                .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
                .infer = Extremum<ReduceOp::kMin>::infer,
                .work = reduction_pass<1>,
                .signatures = Extremum<ReduceOp::kMin>::rows,
                .gradient = Extremum<ReduceOp::kMin>::gradient,
                .examples = extremum_examples});
  registry.add({.kind = "extremum_count",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
                .infer = infer_extremum_count,
                .work = reduction_pass<1>,
                .signatures = extremum_count_rows,
                .examples = [] {
                  return Examples{{.inputs = {f64({2, 5, 4}), f64({2, 4})},
                                   .attributes = {{"dims", Integers{1}}}}};
                }});
  registry.add({.kind = "extremum_grad",
                .min_inputs = 4,
                .max_inputs = 4,
                .attributes = {{"dims", kIntegers}, {"keep_dims", kBoolean, kOptional}},
                .infer = infer_extremum_grad,
                .work = elementwise_pass<2>,
                .signatures = extremum_grad_rows,
                .examples = [] {
                  const TensorType result = f64({2, 4});
                  return Examples{{.inputs = {f64({2, 5, 4}), result, result, result},
                                   .attributes = {{"dims", Integers{1}}},
                                   .ranges = {{-3, 3}, {-3, 3}, {1, 4}, {-3, 3}}}};
                }});
  registry.add({.kind = "reduce_dot",
                .min_inputs = 2,
                .max_inputs = 2,
                .attributes = {{"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional},
                               {"out_dtype", kText, kOptional}},
                .infer = infer_dot,
                .work = reduction_pass<2>,
                .signatures = dot_rows,
                .gradient = dot_gradient,
                .examples = dot_examples});
  registry.add({.kind = "expand",
                .attributes = {{"shape", kIntegers},
                               {"dims", kIntegers},
                               {"keep_dims", kBoolean, kOptional}},
                .infer = infer_expand,
                .work = copy_work,
                .signatures = expand_rows,
                .gradient = expand_gradient,
                .examples = expand_examples});
}

}  // namespace sextant
