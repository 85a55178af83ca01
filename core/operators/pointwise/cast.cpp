// Change of the element type.
//
// - from a floating type to one that holds every value of it (bf16, f16 -> f32 -> f64): P(sum),
//   P(max) and P(min) stay;
// - to other numbers: P(max) and P(min) stay, because rounding is monotone; P(sum) does not,
// because
//   the sum of rounded parts is not the rounded sum;
// - from integers, to wider types as well: P(max) and P(min) stay; a sum of parts wraps around
// where
//   it leaves the type, and would not in the wider one;
// - from bool: P(max) and P(min) stay; a sum of bools counts, and its conversion does not;
// - from numbers to bool: nothing stays, x != 0 is neither linear nor monotone.
//
// A partial sum is narrowed after its reduction or by the boxing that reduces it, which knows in
// which type it adds; only widening passes a sum on.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/pointwise/elementwise.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

std::vector<TensorType> infer_cast(Types inputs, const Attributes& attributes) {
  require_computed("cast", "x", inputs[0]);
  return {{.shape = inputs[0].shape, .dtype = dtype_attribute(attributes, "dtype")}};
}

Work cast_work(Types inputs, Types outputs, const Attributes&) {
  return streaming_work(inputs, outputs, 0, "cast");
}

Rows cast_rows(Types inputs, Types outputs, const Attributes&) {
  const DType from = inputs[0].dtype, to = outputs[0].dtype;
  const bool is_monotone = to != DType::kBool || from == DType::kBool;
  return rows_with(inputs, (holds_every_value(to, from) ? kLinear : kNone) |
                               (is_monotone ? kIncreasing : kNone));
}

// The gradient of a weight arrives in f32 already (README, invariant 3): nothing to do then.
void cast_gradient(GradientContext& context) {
  const DType wanted = context.graph().tensor(context.input(0)).type.dtype;
  context.set_input_gradient(0, in_dtype(context, *context.output_gradient(0), wanted, 0));
}

TensorType operand_of_type(DType dtype) { return {.shape = {5, 2}, .dtype = dtype}; }

std::vector<OperatorExample> cast_examples() {
  return {{.inputs = {f64({5, 2})}, .attributes = {{"dtype", "f32"}}},
          {.inputs = {operand_of_type(DType::kF32)}, .attributes = {{"dtype", "f64"}}},
          {.inputs = {operand_of_type(DType::kBF16)}, .attributes = {{"dtype", "f32"}}},
          {.inputs = {i32({5, 2})}, .attributes = {{"dtype", "f64"}}},
          {.inputs = {i32({5, 2})}, .attributes = {{"dtype", "i64"}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"dtype", "i32"}}},
          {.inputs = {boolean({5, 2})}, .attributes = {{"dtype", "f32"}}, .ranges = {{0, 1}}},
          {.inputs = {f64({5, 2})}, .attributes = {{"dtype", "bool"}}}};
}

}  // namespace

void add_cast(OperatorRegistry& registry) {
  registry.add({.kind = "cast",
                .role = OperatorRole::kCast,
                .attributes = {{"dtype", kText}},
                .infer = infer_cast,
                .work = cast_work,
                .signatures = cast_rows,
                .gradient = cast_gradient,
                .examples = cast_examples});
}

}  // namespace sextant
