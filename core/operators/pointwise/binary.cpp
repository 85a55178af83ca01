// Arithmetic of two tensors that stretch to a common shape (numpy's rule: dims aligned from the
// right, extent 1 repeats). S(d) of the output: an operand that has the dim splits it, one that
// stretches along it is B.
//
// | kind | P(sum) | P(max), P(min) in a, b B | in b, a B | in both |
// |---|---|---|---|---|
// | add | both together; one alone would add the other p times (*) | stay | stay | |
// | sub | both together (*) | stay | swap | |
// | mul | in one, the other B: bilinear (*) | sign of the other unknown | | |
// | div | in a, b B (*) | sign of b unknown | not monotone | |
// | maximum | not linear | stay | stay | P(max), P(max) |
// | minimum | not linear | stay | stay | P(min), P(min) |
// | maximum_grad, minimum_grad | in dy, a and b B | in dy, a and b B | | |
//
// (*) Not of integers: what lies outside the type becomes its end, which keeps add and sub monotone
// and makes them, and mul, no longer linear: 2e9 + 2e9 is cut off in one part, -2e9 - 2e9 in the
// other, and the sum of the whole is 0. Quotients of integers round.
//
// Of two partial maxima only a maximum can be taken part by part: the largest a and the largest b
// lie in different parts, so their sum appears in none.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/pointwise/elementwise.h"

#include <array>
#include <cstdint>

namespace sextant {
namespace {

using Examples = std::vector<OperatorExample>;

constexpr std::array<std::string_view, 3> kOperandNames = {"a", "b", "dy"};

std::vector<TensorType> infer_arithmetic(std::string_view kind, Types inputs) {
  require_number(kind, "a", inputs[0]);
  for (std::size_t i = 1; i < inputs.size(); ++i)
    require_same_dtype(kind, kOperandNames[i], inputs[i], "a", inputs[0]);
  return {{.shape = broadcast_shape(kind, kOperandNames, inputs), .dtype = inputs[0].dtype}};
}

std::vector<TensorType> infer_share(std::string_view kind, Types inputs) {
  require_floating(kind, "dy", inputs[2]);  // a half of it is none of an integer
  return infer_arithmetic(kind, inputs);
}

// Gradients.

TensorId negated(GradientContext& context, TensorId tensor, std::size_t for_input) {
  return context.add("neg", {tensor}, {}, for_input);
}

TensorId divided(GradientContext& context, TensorId gradient, TensorId by, std::size_t for_input) {
  return context.add("div", {gradient, in_type_of(context, gradient, by, for_input)}, {},
                     for_input);
}

void add_gradient(GradientContext& context) {
  for (std::size_t input : {0, 1})
    if (context.wants(input)) set_stretched_gradient(context, input, dy(context));
}

void sub_gradient(GradientContext& context) {
  if (context.wants(0)) set_stretched_gradient(context, 0, dy(context));
  if (context.wants(1)) set_stretched_gradient(context, 1, negated(context, dy(context), 1));
}

void mul_gradient(GradientContext& context) {
  for (std::size_t input : {0, 1})
    if (context.wants(input))
      set_stretched_gradient(context, input,
                             times(context, dy(context), context.input(1 - input), input));
}

// y = a / b: da = dy / b, db = -dy y / b.
void div_gradient(GradientContext& context) {
  const TensorId b = context.input(1);
  if (context.wants(0)) set_stretched_gradient(context, 0, divided(context, dy(context), b, 0));
  if (!context.wants(1)) return;
  const TensorId product = times(context, dy(context), context.output(0), 1);
  set_stretched_gradient(context, 1, negated(context, divided(context, product, b, 1), 1));
}

// The kinds `<kind>_grad` give the share of their first operand.
void choice_gradient(GradientContext& context) {
  for (std::size_t input : {0, 1}) {
    if (!context.wants(input)) continue;
    const auto operand = [&](std::size_t index) {
      return in_type_of(context, dy(context), context.input(index), input);
    };
    set_stretched_gradient(
        context, input,
        context.add(context.op().kind + "_grad", {operand(input), operand(1 - input), dy(context)},
                    {}, input));
  }
}

// Rows.

Rows add_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  if (is_floating(outputs[0].dtype)) add_row(rows, {kPartialSum, kPartialSum}, kPartialSum);
  add_increasing(rows, 2, 0);
  add_increasing(rows, 2, 1);
  return rows;
}

Rows sub_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  if (is_floating(outputs[0].dtype)) add_row(rows, {kPartialSum, kPartialSum}, kPartialSum);
  add_increasing(rows, 2, 0);
  add_decreasing(rows, 2, 1);
  return rows;
}

Rows mul_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  if (!is_floating(outputs[0].dtype)) return rows;
  add_linear(rows, 2, 0);
  add_linear(rows, 2, 1);
  return rows;
}

Rows div_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  if (is_floating(outputs[0].dtype)) add_linear(rows, 2, 0);
  return rows;
}

Rows maximum_rows(Types inputs, Types outputs, const Attributes&) {
  return choice_rows(inputs, outputs, kPartialMax);
}

Rows minimum_rows(Types inputs, Types outputs, const Attributes&) {
  return choice_rows(inputs, outputs, kPartialMin);
}

// The share of dy is 0, a half or all of it: linear and increasing.
Rows share_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  add_linear(rows, 3, 2);
  add_increasing(rows, 3, 2);
  return rows;
}

// Examples: equal shapes, a missing dim, stretching on both sides, a scalar; integers.

Examples examples_in(DType dtype) {
  const auto type = [dtype](Shape shape) { return TensorType{std::move(shape), dtype}; };
  return {{.inputs = {type({5, 2}), type({5, 2})}},
          {.inputs = {type({5, 2}), type({2})}},
          {.inputs = {type({3, 1}), type({2, 1, 5})}},
          {.inputs = {type({3, 4}), type({})}}};
}

Examples arithmetic_examples() {
  Examples examples = examples_in(DType::kF64);
  examples.push_back({.inputs = {i32({5, 2}), i32({2})}});
  return examples;
}

// b on one side of the pole.
Examples div_examples() {
  Examples examples = examples_in(DType::kF64);
  for (OperatorExample& example : examples) example.ranges = {{-3, 3}, {1, 4}};
  examples.push_back({.inputs = {i32({5, 2}), i32({2})}, .ranges = {{-9, 9}, {1, 4}}});
  return examples;
}

Examples share_examples() {
  return {{.inputs = {f64({5, 2}), f64({5, 2}), f64({5, 2})}},
          {.inputs = {f64({5, 2}), f64({2}), f64({5, 2})}},
          {.inputs = {f64({3, 1}), f64({2, 1, 5}), f64({2, 3, 5})}}};
}

// What the kinds of a, b have in common.
OperatorDef of_two(OperatorDef def) {
  def.min_inputs = def.max_inputs = 2;
  def.work = elementwise_pass<1>;
  if (def.examples == nullptr) def.examples = arithmetic_examples;
  return def;
}

OperatorDef share_of_gradient(OperatorDef def) {
  def.min_inputs = def.max_inputs = 3;
  def.work = elementwise_pass<2>;
  def.signatures = share_rows;
  def.examples = share_examples;
  return def;
}

void add_arithmetic(OperatorRegistry& registry) {
  registry.add(of_two(
      {.kind = "add",
       .role = OperatorRole::kSum,
       .infer = [](Types inputs, const Attributes&) { return infer_arithmetic("add", inputs); },
       .signatures = add_rows,
       .gradient = add_gradient}));
  registry.add(of_two(
      {.kind = "sub",
       .infer = [](Types inputs, const Attributes&) { return infer_arithmetic("sub", inputs); },
       .signatures = sub_rows,
       .gradient = sub_gradient}));
  registry.add(of_two(
      {.kind = "mul",
       .infer = [](Types inputs, const Attributes&) { return infer_arithmetic("mul", inputs); },
       .signatures = mul_rows,
       .gradient = mul_gradient}));
  registry.add(of_two(
      {.kind = "div",
       .infer = [](Types inputs, const Attributes&) { return infer_arithmetic("div", inputs); },
       .signatures = div_rows,
       .gradient = div_gradient,
       .examples = div_examples}));
}

void add_choices(OperatorRegistry& registry) {
  registry.add(of_two(
      {.kind = "maximum",
       .infer = [](Types inputs, const Attributes&) { return infer_arithmetic("maximum", inputs); },
       .signatures = maximum_rows,
       .gradient = choice_gradient}));
  registry.add(of_two(
      {.kind = "minimum",
       .infer = [](Types inputs, const Attributes&) { return infer_arithmetic("minimum", inputs); },
       .signatures = minimum_rows,
       .gradient = choice_gradient}));
  registry.add(
      share_of_gradient({.kind = "maximum_grad", .infer = [](Types inputs, const Attributes&) {
                           return infer_share("maximum_grad", inputs);
                         }}));
  registry.add(
      share_of_gradient({.kind = "minimum_grad", .infer = [](Types inputs, const Attributes&) {
                           return infer_share("minimum_grad", inputs);
                         }}));
}

}  // namespace

void add_binary(OperatorRegistry& registry) {
  add_arithmetic(registry);
  add_choices(registry);
}

}  // namespace sextant
