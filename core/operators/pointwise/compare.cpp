// Comparisons, logic on their results, and choice by them. Operands stretch as in binary.cpp. For
// bool a maximum is "any" and a minimum is "all".
//
// | kind | partial words that pass, the others B |
// |---|---|
// | less, less_equal | P(min) in a or P(max) in b -> P(max): some part is below |
// |  | P(max) in a or P(min) in b -> P(min): all are |
// | greater, greater_equal | the same with a and b exchanged |
// | equal, not_equal | none: not monotone |
// | logical_not | P(max), P(min) swap |
// | logical_and | P(max), P(min) stay; P(min) in both -> P(min) |
// | logical_or | P(max), P(min) stay; P(max) in both -> P(max) |
// | where, the condition B | P(sum) in a and b together; P(max), P(min) in a, in b or in both |
//
// P(sum) passes through none of the others: they are not linear.
#include "core/base/check.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/pointwise/elementwise.h"

#include <array>
#include <string>
#include <utility>

namespace sextant {
namespace {

using Examples = std::vector<OperatorExample>;

constexpr std::array<std::string_view, 2> kComparedNames = {"a", "b"};

std::vector<TensorType> infer_comparison(std::string_view kind, Types inputs) {
  require_number(kind, "a", inputs[0]);
  require_same_dtype(kind, "b", inputs[1], "a", inputs[0]);
  return {boolean(broadcast_shape(kind, kComparedNames, inputs))};
}

std::vector<TensorType> infer_logic(std::string_view kind, Types inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) require_bool(kind, kComparedNames[i], inputs[i]);
  return {boolean(broadcast_shape(kind, kComparedNames, inputs))};
}

std::vector<TensorType> infer_where(Types inputs, const Attributes&) {
  constexpr std::array<std::string_view, 3> kWhereNames = {"condition", "a", "b"};
  require_bool("where", "condition", inputs[0]);
  require_same_dtype("where", "b", inputs[2], "a", inputs[1]);
  return {{.shape = broadcast_shape("where", kWhereNames, inputs), .dtype = inputs[1].dtype}};
}

// Rows.

Rows plain_rows(Types inputs, Types outputs, const Attributes&) {
  return broadcast_rows(inputs, outputs[0].shape);
}

// Decreasing in `smaller`, increasing in the other operand.
template <std::size_t kSmaller>
Rows order_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  add_decreasing(rows, 2, kSmaller);
  add_increasing(rows, 2, 1 - kSmaller);
  return rows;
}

Rows not_rows(Types inputs, Types, const Attributes&) { return rows_with(inputs, kDecreasing); }

Rows and_rows(Types inputs, Types outputs, const Attributes&) {
  return choice_rows(inputs, outputs, kPartialMin);
}

Rows or_rows(Types inputs, Types outputs, const Attributes&) {
  return choice_rows(inputs, outputs, kPartialMax);
}

// Every part chooses the same operand, so a choice of parts is a part of the choice. A whole
// operand is a maximum and a minimum of its copies, but not their sum.
Rows where_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows = broadcast_rows(inputs, outputs[0].shape);
  for (const Sbp& word : {kPartialSum, kPartialMax, kPartialMin})
    if (inputs[1].dtype != DType::kBool || word != kPartialSum)
      add_row(rows, {kBroadcast, word, word}, word);
  add_increasing(rows, 3, 1);
  add_increasing(rows, 3, 2);
  return rows;
}

// da = dy where the condition holds, 0 elsewhere; db the reverse.
void where_gradient(GradientContext& context) {
  const TensorId dy = *context.output_gradient(0), condition = context.input(0);
  const DType dtype = context.graph().tensor(dy).type.dtype;
  for (std::size_t input : {1, 2}) {
    if (!context.wants(input)) continue;
    const TensorId zero = context.add("constant", {},
                                      {{"shape", std::vector<std::int64_t>()},
                                       {"dtype", std::string(to_string(dtype))},
                                       {"value", 0.0}},
                                      input);
    const std::vector<TensorId> operands =
        input == 1 ? std::vector{condition, dy, zero} : std::vector{condition, zero, dy};
    set_stretched_gradient(context, input, context.add("where", operands, {}, input));
  }
}

// Examples: equal shapes, and stretching on both sides.

Examples examples_of(DType dtype, std::pair<std::int64_t, std::int64_t> range) {
  const auto type = [dtype](Shape shape) { return TensorType{std::move(shape), dtype}; };
  Examples examples = {{.inputs = {type({5, 4}), type({5, 4})}},
                       {.inputs = {type({5, 1}), type({2, 1, 7})}}};
  for (OperatorExample& example : examples) example.ranges = {range, range};
  return examples;
}

Examples comparison_examples() {
  Examples examples = examples_of(DType::kF64, {-2, 2});
  examples.push_back({.inputs = {i32({5, 2}), i32({2})}});
  return examples;
}

Examples logic_examples() { return examples_of(DType::kBool, {0, 1}); }

Examples where_examples() {
  return {
      {.inputs = {boolean({5, 2}), f64({5, 2}), f64({5, 2})}},
      {.inputs = {boolean({3, 1}), f64({2, 1, 5}), f64({5})}},
      {.inputs = {boolean({5}), f64({}), f64({2, 5})}},
      {.inputs = {boolean({7, 4}), i32({7, 4}), i32({7, 4})}},
  };
}

OperatorDef comparison(OperatorDef def) {
  def.min_inputs = def.max_inputs = 2;
  def.work = elementwise_pass<1>;
  def.examples = comparison_examples;
  return def;
}

void add_order(OperatorRegistry& registry) {
  registry.add(comparison(
      {.kind = "less",
       .infer = [](Types inputs, const Attributes&) { return infer_comparison("less", inputs); },
       .signatures = order_rows<0>}));
  registry.add(
      comparison({.kind = "less_equal",
                  .infer = [](Types inputs,
                              const Attributes&) { return infer_comparison("less_equal", inputs); },
                  .signatures = order_rows<0>}));
  registry.add(comparison(
      {.kind = "greater",
       .infer = [](Types inputs, const Attributes&) { return infer_comparison("greater", inputs); },
       .signatures = order_rows<1>}));
  registry.add(comparison(
      {.kind = "greater_equal",
       .infer = [](Types inputs,
                   const Attributes&) { return infer_comparison("greater_equal", inputs); },
       .signatures = order_rows<1>}));
}

void add_equality(OperatorRegistry& registry) {
  registry.add(comparison(
      {.kind = "equal",
       .infer = [](Types inputs, const Attributes&) { return infer_comparison("equal", inputs); },
       .signatures = plain_rows}));
  registry.add(
      comparison({.kind = "not_equal",
                  .infer = [](Types inputs,
                              const Attributes&) { return infer_comparison("not_equal", inputs); },
                  .signatures = plain_rows}));
}

void add_logic(OperatorRegistry& registry) {
  registry.add(
      {.kind = "logical_not",
       .infer = [](Types inputs, const Attributes&) { return infer_logic("logical_not", inputs); },
       .work = elementwise_pass<1>,
       .signatures = not_rows,
       .examples =
           [] {
             return Examples{{.inputs = {boolean({5, 4})}, .ranges = {{0, 1}}}};
           }});
  registry.add(
      {.kind = "logical_and",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = [](Types inputs, const Attributes&) { return infer_logic("logical_and", inputs); },
       .work = elementwise_pass<1>,
       .signatures = and_rows,
       .examples = logic_examples});
  registry.add(
      {.kind = "logical_or",
       .min_inputs = 2,
       .max_inputs = 2,
       .infer = [](Types inputs, const Attributes&) { return infer_logic("logical_or", inputs); },
       .work = elementwise_pass<1>,
       .signatures = or_rows,
       .examples = logic_examples});
}

}  // namespace

void add_compare(OperatorRegistry& registry) {
  add_order(registry);
  add_equality(registry);
  add_logic(registry);
  registry.add({.kind = "where",
                .min_inputs = 3,
                .max_inputs = 3,
                .infer = infer_where,
                .work = elementwise_pass<1>,
                .signatures = where_rows,
                .gradient = where_gradient,
                .examples = where_examples});
}

}  // namespace sextant
