// What the operator families share: shape checks that name what they refuse, rows of words, work.
#pragma once

#include "core/base/dtype.h"
#include "core/graphs/operator.h"
#include "core/graphs/work.h"
#include "core/tensors/attributes.h"
#include "core/tensors/shape.h"

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

using Types = std::span<const TensorType>;
using Rows = std::vector<SbpSignature>;

// Attributes in a registration: {"dim", kInteger}, {"keep_dims", kBoolean, kOptional}.
inline constexpr auto kBoolean = AttributeType::kBoolean, kInteger = AttributeType::kInteger,
                      kReal = AttributeType::kReal, kText = AttributeType::kText,
                      kIntegers = AttributeType::kIntegers;
inline constexpr auto kOptional = AttributeDef::Presence::kOptional;

// In which kernels compute on a type and gradients of parameters are kept: f64 for f64, else f32.
DType accumulator_type(DType dtype);
// In which the gradient of an input is kept: README, invariant 3.
std::string gradient_dtype(const GradientContext& context, std::size_t input);
// The element type that an attribute names, or the fallback. Throws Error(kBadInput) for one of 8
// bits, which `quantize` alone makes.
DType dtype_or(const Attributes& attributes, std::string_view name, DType fallback);
DType dtype_attribute(const Attributes& attributes, std::string_view name);

// A type for messages, "5x7 f32". Rules are asked for every operator of a graph, and few have
// something to say: the text is written where a message is.
struct TypeText {
  const TensorType& type;
};
inline TypeText to_text(const TensorType& type) { return {type}; }

// Each throws Error(kBadInput) with the operator, the operand and what was found and wanted.
void require_floating(std::string_view kind, std::string_view operand, const TensorType& type);
// Floating, integer or bool: a type in which something is computed.
void require_computed(std::string_view kind, std::string_view operand, const TensorType& type);
void require_integer(std::string_view kind, std::string_view operand, const TensorType& type);
void require_min_rank(std::string_view kind, std::string_view operand, const TensorType& type,
                      std::size_t rank);
void require_type(std::string_view kind, std::string_view operand, const TensorType& type,
                  const TensorType& wanted);
void require_shape(std::string_view kind, std::string_view operand, const TensorType& type,
                   const Shape& wanted);
void require_same_dtype(std::string_view kind, std::string_view operand, const TensorType& type,
                        std::string_view other, const TensorType& wanted);

// All dims but the last `trailing`, and only those.
Shape leading_dims(const Shape& shape, std::size_t trailing = 1);
Shape trailing_dims(const Shape& shape, std::size_t trailing);
std::int64_t last_extent(const Shape& shape);  // of rank 1 or more

inline constexpr Sbp kBroadcast{};
inline constexpr Sbp kPartialSum{.kind = Sbp::Kind::kPartial, .reduce = ReduceOp::kSum};
inline constexpr Sbp kPartialMax{.kind = Sbp::Kind::kPartial, .reduce = ReduceOp::kMax};
inline constexpr Sbp kPartialMin{.kind = Sbp::Kind::kPartial, .reduce = ReduceOp::kMin};

SbpSignature all_broadcast(std::size_t num_inputs, std::size_t num_outputs);
// Operators that only move elements pass any partial value on: all operands P, the same reduction.
void append_partial_rows(Rows& rows, std::size_t num_inputs = 1, std::size_t num_outputs = 1);

// The dim named by attribute `dim`, which must be one of x.
std::size_t dim_attribute(std::string_view kind, const TensorType& x, const Attributes& attributes);

// Work that reads every input and writes every output once.
Work streaming_work(Types inputs, Types outputs, Flops flops, std::string kernel);
// Streaming work of so many FLOPs per element of the first input.
Work elementwise_work(Types inputs, Types outputs, Flops flops_per_element,
                      std::string kernel = "elementwise");
Work copy_work(Types inputs, Types outputs, const Attributes&);  // each once, kernel "copy"
Work no_work();

// Of kinds that make one pass: FLOPs per element of the output, or of the first input.
template <int kFlopsPerElement>
Work elementwise_pass(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs,
                        kFlopsPerElement * static_cast<Flops>(outputs[0].shape.elements()),
                        "elementwise");
}
template <int kFlopsPerElement>
Work reduction_pass(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, kFlopsPerElement, "reduction");
}
// Of statistics that lie beside the pass.
template <int kFlopsPerElement>
Work normalization_pass(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, kFlopsPerElement, "normalization");
}
// Of rows along the last dim. Gradients of weights add up over rows, in two kernels.
std::string row_kernel(const TensorType& x, bool is_sum);
template <int kFlopsPerElement, bool kIsSum = false>
Work row_normalization_pass(Types inputs, Types outputs, const Attributes&) {
  return elementwise_work(inputs, outputs, kFlopsPerElement, row_kernel(inputs[0], kIsSum));
}

// `tensor`, cast unless it has this element type: gradients of 16-bit parameters are f32 (README,
// invariant 3).
TensorId in_dtype(GradientContext& context, TensorId tensor, DType dtype, std::size_t for_input);

// Types of example inputs: gradients are compared with finite differences, so in f64.
TensorType f64(Shape shape);
TensorType i32(Shape shape);

}  // namespace sextant

template <>
struct fmt::formatter<sextant::TypeText> {
  constexpr auto parse(fmt::format_parse_context& context) { return context.begin(); }
  template <typename Context>
  auto format(const sextant::TypeText& text, Context& context) const {
    return fmt::format_to(context.out(), "{} {}", sextant::to_string(text.type.shape),
                          sextant::to_string(text.type.dtype));
  }
};
