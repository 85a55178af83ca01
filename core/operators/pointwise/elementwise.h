// What the families of element-wise kinds share: operands that stretch to a common shape, rows by
// the algebraic properties of a function, pieces of gradient rules.
#pragma once

#include "core/graphs/operator.h"
#include "core/operators/rules.h"

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace sextant {

// Shape rules.

// i32, i64 or floating: anything but bool.
void require_number(std::string_view kind, std::string_view operand, const TensorType& type);
void require_bool(std::string_view kind, std::string_view operand, const TensorType& type);

// One input x, and an output of its type.
std::vector<TensorType> infer_floating(std::string_view kind, Types inputs);
std::vector<TensorType> infer_number(std::string_view kind, Types inputs);
// A `<kind>_grad`: what the slope is computed from, and dy of the same type, which is that of dx.
std::vector<TensorType> infer_slope(std::string_view kind, std::string_view first, Types inputs);

// Dims are aligned from the right; an extent of 1 stretches to the other operands' extent. `names`
// are those of the operands in errors, which show both extents that do not fit.
Shape broadcast_shape(std::string_view kind, std::span<const std::string_view> names, Types inputs);

// Rows.

// B, then S(d) of every operand for every dim d of the output: an operand that has the dim splits
// its own, one that stretches along it stays whole.
Rows broadcast_rows(Types inputs, const Shape& output);

// A row of words for every operand and the output.
void add_row(Rows& rows, std::vector<Sbp> inputs, Sbp output);

// Rows of partial values for the operand at `index` when all others are B.
void add_linear(Rows& rows, std::size_t num_inputs, std::size_t index);      // P(sum) stays
void add_increasing(Rows& rows, std::size_t num_inputs, std::size_t index);  // P(max), P(min) stay
void add_decreasing(Rows& rows, std::size_t num_inputs, std::size_t index);  // and swap

// Of kinds that choose the larger or the smaller of two operands, `chosen` P(max) or P(min): each
// is increasing, and parts of both choose as the whole does. On bool these are "or" and "and".
Rows choice_rows(Types inputs, Types outputs, Sbp chosen);

// What is known of a function of one tensor; properties are added with |.
enum Property : unsigned {
  kNone = 0,
  // Counts for floating types alone: what an integer function makes beyond its type becomes the end
  // of the type, so it is not linear (and stays monotone).
  kLinear = 1,
  kIncreasing = 2,
  kDecreasing = 4,
  // Undefined below zero. The parts of a minimum are all in the domain if it is; those of a maximum
  // may lie below it and give NaN.
  kIncreasingAboveZero = 8,
  kDecreasingAboveZero = 16
};

Rows rows_with(Types inputs, unsigned properties);

template <unsigned kProperties>
Rows property_rows(Types inputs, Types, const Attributes&) {
  return rows_with(inputs, kProperties);
}

// Rows of a `<kind>_grad`: linear in dy, and increasing in it where dx is all of dy or nothing.
template <bool kSelects>
Rows slope_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  add_linear(rows, 2, 1);
  if (kSelects) add_increasing(rows, 2, 1);
  return rows;
}

// Gradient rules.

// Gradient of the one output of the operator.
TensorId dy(GradientContext& context);

// `tensor` in the element type of `gradient`: the gradient of a 16-bit tensor that only serves
// parameters arrives in f32 (README, invariant 3).
TensorId in_type_of(GradientContext& context, TensorId gradient, TensorId tensor,
                    std::size_t for_input);
// gradient * factor, in the element type of `gradient`.
TensorId times(GradientContext& context, TensorId gradient, TensorId factor, std::size_t for_input);

// Sets the gradient of an operand that was stretched: `gradient` has the shape of the output and is
// summed over the dims along which the operand repeats.
void set_stretched_gradient(GradientContext& context, std::size_t input, TensorId gradient);

TensorType boolean(Shape shape);  // of example inputs

}  // namespace sextant
