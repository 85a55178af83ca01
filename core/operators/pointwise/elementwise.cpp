// Operands that stretch, their rows and the sums that undo stretching in gradients.
#include "core/operators/pointwise/elementwise.h"

#include "core/base/check.h"
#include "core/graphs/logical_graph.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace sextant {
namespace {

// How many leading dims of the output the operand does not have.
std::size_t missing_dims(const Shape& operand, const Shape& output) {
  return output.rank() - operand.rank();
}

// Whether the operand repeats along a dim of the output.
bool repeats_along(const Shape& operand, const Shape& output, std::size_t dim) {
  const std::size_t missing = missing_dims(operand, output);
  return dim < missing || operand[dim - missing] != output[dim];
}

// A row in which one operand and the output are not B.
void add_single(Rows& rows, std::size_t num_inputs, std::size_t index, Sbp from, Sbp to) {
  std::vector<Sbp> inputs(num_inputs, kBroadcast);
  inputs[index] = from;
  add_row(rows, std::move(inputs), to);
}

TensorId sum_over(GradientContext& context, std::size_t input, TensorId gradient,
                  std::vector<std::int64_t> dims, bool keep_dims) {
  if (dims.empty()) return gradient;
  return context.add("reduce_sum", {gradient},
                     {{"dims", std::move(dims)}, {"keep_dims", keep_dims}}, input);
}

}  // namespace

void require_number(std::string_view kind, std::string_view operand, const TensorType& type) {
  require(type.dtype != DType::kBool && !is_only_moved(type.dtype), ErrorCode::kBadInput,
          "{}: {} is {}, wanted numbers", kind, operand, to_text(type));
}

void require_bool(std::string_view kind, std::string_view operand, const TensorType& type) {
  require(type.dtype == DType::kBool, ErrorCode::kBadInput, "{}: {} is {}, wanted bool", kind,
          operand, to_text(type));
}

std::vector<TensorType> infer_floating(std::string_view kind, Types inputs) {
  require_floating(kind, "x", inputs[0]);
  return {inputs[0]};
}

std::vector<TensorType> infer_number(std::string_view kind, Types inputs) {
  require_number(kind, "x", inputs[0]);
  return {inputs[0]};
}

std::vector<TensorType> infer_slope(std::string_view kind, std::string_view first, Types inputs) {
  require_floating(kind, first, inputs[0]);
  require_type(kind, "dy", inputs[1], inputs[0]);
  return {inputs[0]};
}

Shape broadcast_shape(std::string_view kind, std::span<const std::string_view> names,
                      Types inputs) {
  std::size_t rank = 0;
  for (const TensorType& input : inputs) rank = std::max(rank, input.shape.rank());
  std::vector<std::int64_t> extents(rank, 1);
  std::vector<std::size_t> given_by(rank, 0);  // the operand that is not stretched
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Shape& shape = inputs[i].shape;
    const std::size_t missing = rank - shape.rank();
    for (std::size_t dim = missing; dim < rank; ++dim) {
      const std::int64_t extent = shape[dim - missing];
      if (extent == 1 || extent == extents[dim]) continue;
      if (extents[dim] != 1)
        fail(ErrorCode::kBadInput,
             "{}: {} is {} and {} is {}, wanted extents that are equal or 1, counted from the last "
             "dim",
             kind, names[given_by[dim]], to_text(inputs[given_by[dim]]), names[i],
             to_text(inputs[i]));
      extents[dim] = extent;
      given_by[dim] = i;
    }
  }
  return Shape(std::move(extents));
}

Rows broadcast_rows(Types inputs, const Shape& output) {
  Rows rows{all_broadcast(inputs.size(), 1)};
  for (std::size_t dim = 0; dim < output.rank(); ++dim) {
    std::vector<Sbp> words;
    for (const TensorType& input : inputs)
      words.push_back(repeats_along(input.shape, output, dim)
                          ? kBroadcast
                          : Sbp::split(dim - missing_dims(input.shape, output)));
    add_row(rows, std::move(words), Sbp::split(dim));
  }
  return rows;
}

void add_row(Rows& rows, std::vector<Sbp> inputs, Sbp output) {
  rows.push_back({std::move(inputs), {output}});
}

void add_linear(Rows& rows, std::size_t num_inputs, std::size_t index) {
  add_single(rows, num_inputs, index, kPartialSum, kPartialSum);
}

void add_increasing(Rows& rows, std::size_t num_inputs, std::size_t index) {
  add_single(rows, num_inputs, index, kPartialMax, kPartialMax);
  add_single(rows, num_inputs, index, kPartialMin, kPartialMin);
}

void add_decreasing(Rows& rows, std::size_t num_inputs, std::size_t index) {
  add_single(rows, num_inputs, index, kPartialMax, kPartialMin);
  add_single(rows, num_inputs, index, kPartialMin, kPartialMax);
}

Rows choice_rows(Types inputs, Types outputs, Sbp chosen) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  add_increasing(rows, 2, 0);
  add_increasing(rows, 2, 1);
  add_row(rows, {chosen, chosen}, chosen);
  return rows;
}

Rows rows_with(Types inputs, unsigned properties) {
  Rows rows = broadcast_rows(inputs, inputs[0].shape);
  if ((properties & kLinear) && is_floating(inputs[0].dtype)) add_linear(rows, 1, 0);
  if (properties & kIncreasing) add_increasing(rows, 1, 0);
  if (properties & kDecreasing) add_decreasing(rows, 1, 0);
  if (properties & kIncreasingAboveZero) add_row(rows, {kPartialMin}, kPartialMin);
  if (properties & kDecreasingAboveZero) add_row(rows, {kPartialMin}, kPartialMax);
  return rows;
}

TensorId in_type_of(GradientContext& context, TensorId gradient, TensorId tensor,
                    std::size_t for_input) {
  return in_dtype(context, tensor, context.graph().tensor(gradient).type.dtype, for_input);
}

TensorId times(GradientContext& context, TensorId gradient, TensorId factor,
               std::size_t for_input) {
  return context.add("mul", {gradient, in_type_of(context, gradient, factor, for_input)}, {},
                     for_input);
}

void set_stretched_gradient(GradientContext& context, std::size_t input, TensorId gradient) {
  const Shape own = context.graph().tensor(context.input(input)).type.shape;
  const Shape output = context.graph().tensor(gradient).type.shape;
  const std::size_t missing = missing_dims(own, output);
  std::vector<std::int64_t> leading, stretched;  // the second counted without the leading dims
  for (std::size_t dim = 0; dim < output.rank(); ++dim) {
    if (dim < missing)
      leading.push_back(static_cast<std::int64_t>(dim));
    else if (repeats_along(own, output, dim))
      stretched.push_back(static_cast<std::int64_t>(dim - missing));
  }
  const TensorId without_leading = sum_over(context, input, gradient, std::move(leading), false);
  context.set_input_gradient(input,
                             sum_over(context, input, without_leading, std::move(stretched), true));
}

TensorId dy(GradientContext& context) { return *context.output_gradient(0); }

TensorType boolean(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kBool}; }

}  // namespace sextant
