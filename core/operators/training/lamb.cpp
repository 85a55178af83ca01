// LAMB (arXiv 1904.00962) in pieces, so that its norms are those of whole tensors under any split:
// the direction of AdamW with its moments as state, two sums of squares, and the step itself.
//
// | kind(operands) | words in | words out |
// |---|---|---|
// | lamb_direction(gradient, parameter, control) | S(d), S(d), B | direction, m, v S(d); step, rate B |
// | lamb_norms(parameter, direction) | S(d), S(d) | P(sum) |
// | lamb_apply(parameter, direction, norms, rate, control) | S(d), S(d), B, B, B | parameter S(d) |
//
// And all B. `lamb_apply` owns the parameter: in the staged and the physical graph that input is
// dropped (README, "Optimizer").
#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/training/learning_rate.h"
#include "core/operators/training/updates.h"

#include <string>

namespace sextant {
namespace {

constexpr std::size_t kDirectionStates[] = {1, 2, 3};

TensorType rate_type() { return {.shape = Shape(), .dtype = DType::kF64}; }

std::vector<TensorType> infer_direction(Types inputs, const Attributes& attributes) {
  require_learning_rate("lamb_direction", attributes);
  for (const char* name : {"beta1", "beta2", "epsilon", "weight_decay"}) attributes.real(name);
  const TensorType state = require_gradient("lamb_direction", inputs[0]);
  require_type("lamb_direction", "parameter", inputs[1], state);
  require_control("lamb_direction", inputs[2]);
  return {state, state, state, {.shape = Shape(), .dtype = DType::kI64}, rate_type()};
}

std::vector<TensorType> infer_norms(Types inputs, const Attributes&) {
  require_floating("lamb_norms", "parameter", inputs[0]);
  require_type("lamb_norms", "direction", inputs[1], inputs[0]);
  return {stats_type()};
}

std::vector<TensorType> infer_apply(Types inputs, const Attributes&) {
  const std::size_t first = inputs.size() - 4;  // 1 where the parameter is an input
  const TensorType& direction = inputs[first];
  require_type("lamb_apply", "direction", direction, require_gradient("lamb_apply", direction));
  if (first == 1) require_type("lamb_apply", "parameter", inputs[0], direction);
  require_shape("lamb_apply", "norms", inputs[first + 1], Shape{2});
  require_floating("lamb_apply", "norms", inputs[first + 1]);
  require_shape("lamb_apply", "rate", inputs[first + 2], Shape());
  require_floating("lamb_apply", "rate", inputs[first + 2]);
  require_control("lamb_apply", inputs[first + 3]);
  return {direction};
}

// Reads the gradient, the parameter and both moments, writes the direction and the moments.
Work direction_work(Types inputs, Types outputs, const Attributes&) {
  constexpr Flops kFlopsPerElement = 16;
  Work work = elementwise_work(inputs, outputs, kFlopsPerElement, "optimizer");
  work.read += 2 * size_of(outputs[1]);
  return work;
}

Work apply_work(Types inputs, Types outputs, const Attributes&) {
  constexpr Flops kFlopsPerElement = 2;
  const bool reads_parameter = inputs.size() == 5;
  Work work = elementwise_work(inputs, outputs, kFlopsPerElement, "optimizer");
  if (!reads_parameter) work.read += size_of(outputs[0]);
  return work;
}

Rows direction_rows(Types inputs, Types outputs, const Attributes&) {
  return update_rows(inputs, outputs, 2);
}

Rows norms_rows(Types inputs, Types, const Attributes&) {
  Rows rows{all_broadcast(2, 1)};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim)
    rows.push_back({{Sbp::split(dim), Sbp::split(dim)}, {kPartialSum}});
  return rows;
}

Rows apply_rows(Types inputs, Types outputs, const Attributes&) {
  return update_rows(inputs, outputs, inputs.size() - 3);
}

std::vector<OperatorExample> direction_examples() {
  return {{.inputs = {f64({5, 3}), f64({5, 3}), f64({2})},
           .attributes = {{"learning_rate", 0.5},
                          {"beta1", 0.5},
                          {"beta2", 0.75},
                          {"epsilon", 0.125},
                          {"weight_decay", 0.25},
                          {"parameter", std::string("example")}},
           .ranges = {{-3, 3}, {-3, 3}, {1, 3}}}};
}

std::vector<OperatorExample> norms_examples() { return {{.inputs = {f64({5, 3}), f64({5, 3})}}}; }

std::vector<OperatorExample> apply_examples() {
  const Attributes attributes{
      {"parameter", std::string("example")}, {"init", std::string("normal")}, {"init_std", 1.0}};
  return {{.inputs = {f64({5, 3}), f64({2}), f64(Shape()), f64({2})},
           .attributes = attributes,
           .ranges = {{-3, 3}, {1, 3}, {1, 3}, {1, 3}}}};
}

}  // namespace

void add_lamb(OperatorRegistry& registry) {
  registry.add({.kind = "lamb_direction",
                .min_inputs = 3,
                .max_inputs = 3,
                .attributes = {{"learning_rate", kReal},
                               {"warm_up", kInteger, kOptional},
                               {"schedule", kText, kOptional},
                               {"total_updates", kInteger, kOptional},
                               {"minimum_rate", kReal, kOptional},
                               {"weight_decay", kReal},
                               {"beta1", kReal},
                               {"beta2", kReal},
                               {"epsilon", kReal},
                               {"parameter", kText}},
                .infer = infer_direction,
                .work = direction_work,
                .signatures = direction_rows,
                .state_outputs = {std::begin(kDirectionStates), std::end(kDirectionStates)},
                .examples = direction_examples});
  registry.add({.kind = "lamb_norms",
                .min_inputs = 2,
                .max_inputs = 2,
                .infer = infer_norms,
                .work = reduction_pass<4>,
                .signatures = norms_rows,
                .examples = norms_examples});
  registry.add({.kind = "lamb_apply",
                .min_inputs = 4,
                .max_inputs = 5,
                .attributes = {{"parameter", kText},
                               {"init", kText, kOptional},
                               {"init_std", kReal, kOptional},
                               {"adapts", kBoolean, kOptional}},
                .infer = infer_apply,
                .work = apply_work,
                .signatures = apply_rows,
                .state_outputs = {0},
                .examples = apply_examples});
}

}  // namespace sextant
