// The updates of one parameter that look at one element at a time: descent, descent with momentum,
// AdamW. LAMB, which looks at whole tensors, is in lamb.cpp.
//
// | kind: parameter | gradient | control | parameter, moments | step | |
// |---|---|---|---|---|---|
// | B | B | B | B | B | |
// | S(d) | S(d) | B | S(d) | B | element by element: ZeRO-1 is this row over dp |
//
// Two forms of each kind. In the logical training graph the parameter is an input like any other.
// In the staged and the physical graph `parameter` and its updater are one actor: that input is
// dropped, because output 0 is that tensor (README, "Optimizer"). All outputs are state.
#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "core/operators/families.h"
#include "core/operators/training/learning_rate.h"
#include "core/operators/training/updates.h"

#include <string>

namespace sextant {

TensorType require_gradient(std::string_view kind, const TensorType& gradient) {
  require_floating(kind, "gradient", gradient);
  return {.shape = gradient.shape, .dtype = accumulator_type(gradient.dtype)};
}

void require_control(std::string_view kind, const TensorType& control) {
  require_shape(kind, "control", control, Shape{2});
  require(control.dtype == DType::kF64 || control.dtype == DType::kF32, ErrorCode::kBadInput,
          "{}: control is {}, wanted f64 or f32", kind, to_text(control));
}

Rows update_rows(Types inputs, Types outputs, std::size_t num_split_inputs) {
  Rows rows{all_broadcast(inputs.size(), outputs.size())};
  for (std::size_t dim = 0; dim < inputs[0].shape.rank(); ++dim) {
    SbpSignature row = rows[0];
    for (std::size_t i = 0; i < num_split_inputs; ++i) row.inputs[i] = Sbp::split(dim);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].shape == inputs[0].shape) row.outputs[i] = Sbp::split(dim);
    rows.push_back(std::move(row));
  }
  return rows;
}

namespace {

constexpr std::size_t kMomentsOfSgd = 0, kMomentsOfMomentum = 1, kMomentsOfAdamW = 2;

TensorType step_type() { return {.shape = Shape(), .dtype = DType::kI64}; }

std::vector<TensorType> infer_update(std::string_view kind, std::size_t moments, Types inputs,
                                     const Attributes& attributes,
                                     std::initializer_list<const char*> options) {
  require_learning_rate(kind, attributes);
  for (const char* name : options) attributes.real(name);
  const TensorType state = require_gradient(kind, inputs[inputs.size() - 2]);
  if (inputs.size() == 3) require_type(kind, "parameter", inputs[0], state);
  require_control(kind, inputs.back());
  std::vector<TensorType> outputs(1 + moments, state);
  outputs.push_back(step_type());
  return outputs;
}

std::vector<TensorType> infer_sgd(Types inputs, const Attributes& attributes) {
  return infer_update("sgd", kMomentsOfSgd, inputs, attributes, {"weight_decay"});
}

std::vector<TensorType> infer_momentum(Types inputs, const Attributes& attributes) {
  return infer_update("momentum", kMomentsOfMomentum, inputs, attributes,
                      {"momentum", "weight_decay"});
}

std::vector<TensorType> infer_adamw(Types inputs, const Attributes& attributes) {
  return infer_update("adamw", kMomentsOfAdamW, inputs, attributes,
                      {"beta1", "beta2", "epsilon", "weight_decay"});
}

// Reads and writes the parameter and its moments, reads the gradient.
template <std::size_t kMoments, int kFlopsPerElement>
Work update_work(Types inputs, Types outputs, const Attributes&) {
  Work work = elementwise_work(outputs.first(1 + kMoments), outputs, kFlopsPerElement, "optimizer");
  work.read += size_of(inputs[inputs.size() - 2]);
  return work;
}

// All but the control are split alike.
Rows rows_of_update(Types inputs, Types outputs, const Attributes&) {
  return update_rows(inputs, outputs, inputs.size() - 1);
}

OperatorExample example(Attributes attributes) {
  attributes.set("learning_rate", 0.5);
  attributes.set("weight_decay", 0.25);
  attributes.set("parameter", std::string("example"));
  attributes.set("init", std::string("normal"));
  attributes.set("init_std", 1.0);
  return {.inputs = {f64({5, 3}), f64({2})}, .attributes = attributes, .ranges = {{-3, 3}, {1, 3}}};
}

std::vector<OperatorExample> sgd_examples() {
  return {example({}), example({{"schedule", std::string("linear")},
                                {"warm_up", std::int64_t{2}},
                                {"total_updates", std::int64_t{6}}})};
}

std::vector<OperatorExample> momentum_examples() {
  return {example({{"momentum", 0.75}}), example({{"momentum", 0.75}, {"nesterov", true}})};
}

std::vector<OperatorExample> adamw_examples() {
  return {example({{"beta1", 0.5}, {"beta2", 0.75}, {"epsilon", 0.125}})};
}

}  // namespace

void add_optimizer(OperatorRegistry& registry) {
  registry.add({.kind = "sgd",
                .min_inputs = 2,
                .max_inputs = 3,
                .attributes = {{"learning_rate", kReal},
                               {"warm_up", kInteger, kOptional},
                               {"schedule", kText, kOptional},
                               {"total_updates", kInteger, kOptional},
                               {"minimum_rate", kReal, kOptional},
                               {"weight_decay", kReal},
                               {"parameter", kText, kOptional},
                               {"init", kText, kOptional},
                               {"init_std", kReal, kOptional}},
                .infer = infer_sgd,
                .work = update_work<kMomentsOfSgd, 5>,
                .signatures = rows_of_update,
                .state_outputs = {0, 1},
                .examples = sgd_examples});
  registry.add({.kind = "momentum",
                .min_inputs = 2,
                .max_inputs = 3,
                .attributes = {{"learning_rate", kReal},
                               {"warm_up", kInteger, kOptional},
                               {"schedule", kText, kOptional},
                               {"total_updates", kInteger, kOptional},
                               {"minimum_rate", kReal, kOptional},
                               {"weight_decay", kReal},
                               {"parameter", kText, kOptional},
                               {"init", kText, kOptional},
                               {"init_std", kReal, kOptional},
                               {"momentum", kReal},
                               {"nesterov", kBoolean, kOptional}},
                .infer = infer_momentum,
                .work = update_work<kMomentsOfMomentum, 7>,
                .signatures = rows_of_update,
                .state_outputs = {0, 1, 2},
                .examples = momentum_examples});
  registry.add({.kind = "adamw",
                .min_inputs = 2,
                .max_inputs = 3,
                .attributes = {{"learning_rate", kReal},
                               {"warm_up", kInteger, kOptional},
                               {"schedule", kText, kOptional},
                               {"total_updates", kInteger, kOptional},
                               {"minimum_rate", kReal, kOptional},
                               {"weight_decay", kReal},
                               {"parameter", kText, kOptional},
                               {"init", kText, kOptional},
                               {"init_std", kReal, kOptional},
                               {"beta1", kReal},
                               {"beta2", kReal},
                               {"epsilon", kReal}},
                .infer = infer_adamw,
                .work = update_work<kMomentsOfAdamW, 16>,
                .signatures = rows_of_update,
                .state_outputs = {0, 1, 2, 3},
                .examples = adamw_examples});
  add_lamb(registry);
  add_update_control(registry);
}

}  // namespace sextant
