// Change of the element type.
//
// | x -> y | P(sum) | P(max), P(min) |
// |---|---|---|
// | every value of x is one of y: bf16, f16 -> f32 -> f64; i32 -> i64, f64 | stays | stay |
// | other numbers | rounds: the sum of rounded parts is not the rounded sum | stay: rounding is
// monotone | | bool -> numbers | a sum of bools counts, its conversion does not | stay | | numbers
// -> bool | not linear | x != 0 is not monotone |
//
// A partial sum is narrowed after its reduction or by the boxing that reduces it, which knows in
// which type it adds (G15); only widening passes a sum on.
#include "core/check.h"
#include "core/logical_graph.h"
#include "core/operator.h"
#include "core/operators/elementwise.h"
#include "core/operators/families.h"

namespace sextant {
namespace {

bool is_16_bit_float(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

// Whether `to` has every value of `from`, and sums of them as exactly.
bool widens(DType from, DType to) {
  if (from == to) return from != DType::kBool;
  if (from == DType::kI32) return to == DType::kI64 || to == DType::kF64;
  if (from == DType::kF32) return to == DType::kF64;
  return is_16_bit_float(from) && (to == DType::kF32 || to == DType::kF64);
}

std::vector<TensorType> infer_cast(Types inputs, const Attributes& attributes) {
  return {{.shape = inputs[0].shape, .dtype = parse_dtype(attributes.text("dtype"))}};
}

Rows cast_rows(Types inputs, Types outputs, const Attributes&) {
  const DType from = inputs[0].dtype, to = outputs[0].dtype;
  const bool is_monotone = to != DType::kBool || from == DType::kBool;
  return rows_with(inputs,
                   (widens(from, to) ? kLinear : kNone) | (is_monotone ? kIncreasing : kNone));
}

// The gradient of a weight arrives in f32 already (README, invariant 3): nothing to do then.
void cast_gradient(GradientContext& context) {
  TensorId gradient = *context.output_gradient(0);
  const DType wanted = context.graph().tensor(context.input(0)).type.dtype;
  if (context.graph().tensor(gradient).type.dtype != wanted)
    gradient = context.add("cast", {gradient}, {{"dtype", std::string(to_string(wanted))}}, 0);
  context.set_input_gradient(0, gradient);
}

TensorType example(DType dtype) { return {.shape = {5, 2}, .dtype = dtype}; }

std::vector<OperatorExample> cast_examples() {
  return {{.inputs = {f64({5, 2})}, .attributes = {{"dtype", "f32"}}},
          {.inputs = {example(DType::kF32)}, .attributes = {{"dtype", "f64"}}},
          {.inputs = {example(DType::kBF16)}, .attributes = {{"dtype", "f32"}}},
          {.inputs = {i32({5, 2})}, .attributes = {{"dtype", "f64"}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"dtype", "i32"}}},
          {.inputs = {boolean({5, 2})}, .attributes = {{"dtype", "f32"}}, .ranges = {{0, 1}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"dtype", "bool"}}}};
}

}  // namespace

void add_cast(OperatorRegistry& registry) {
  registry.add({.kind = "cast",
                .infer = infer_cast,
                .work = elementwise_pass<0>,
                .signatures = cast_rows,
                .gradient = cast_gradient,
                .examples = cast_examples});
}

}  // namespace sextant
