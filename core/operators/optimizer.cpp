// The updates of one parameter: AdamW, and descent with momentum.
//
// | adamw: parameter | gradient | token_count | parameter, m, v | step | |
// |---|---|---|---|---|---|
// | B | B | B | B | B | |
// | S(d) | S(d) | B | S(d) | B | element by element: ZeRO-1 is this row over dp |
//
// | sgd: parameter | gradient | token_count | parameter, momentum | |
// |---|---|---|---|---|
// | B | B | B | B | |
// | S(d) | S(d) | B | S(d) | |
//
// Two forms of each kind. In the logical training graph the parameter is an input like any other.
// In the staged and the physical graph `parameter` and its updater are one actor: that input is
// dropped, because output 0 is that tensor (README, "Optimizer"). All outputs are state.
#include "core/check.h"
#include "core/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

// The gradient's type, which is the parameter's and that of the states like it.
TensorType require_update(std::string_view kind, Types inputs, const Attributes& attributes,
                          std::initializer_list<const char*> options) {
  for (const char* name : options) attributes.real(name);
  const TensorType& gradient = inputs[inputs.size() - 2];
  require(gradient.dtype == DType::kF32 || gradient.dtype == DType::kF64, ErrorCode::kBadInput,
          "{}: gradient is {}, wanted f32 or f64", kind, to_text(gradient));
  if (inputs.size() == 3) require_type(kind, "parameter", inputs[0], gradient);
  const TensorType& token_count = inputs.back();
  require_shape(kind, "token_count", token_count, Shape());
  require_floating(kind, "token_count", token_count);
  return gradient;
}

std::vector<TensorType> infer_adamw(Types inputs, const Attributes& attributes) {
  const TensorType state = require_update(
      "adamw", inputs, attributes, {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"});
  return {state, state, state, {.shape = Shape(), .dtype = DType::kI64}};
}

std::vector<TensorType> infer_sgd(Types inputs, const Attributes& attributes) {
  const TensorType state =
      require_update("sgd", inputs, attributes, {"learning_rate", "momentum", "weight_decay"});
  return {state, state};
}

// Reads parameter, m, v and the gradient, writes the first three.
Work adamw_work(Types inputs, Types outputs, const Attributes&) {
  constexpr Flops kFlopsPerElement = 16;
  const TensorType& gradient = inputs[inputs.size() - 2];
  Work work = elementwise_work(outputs.first(3), outputs, kFlopsPerElement, "optimizer");
  work.read += size_of(gradient);
  return work;
}

// Reads parameter, momentum and the gradient, writes the first two.
Work sgd_work(Types inputs, Types outputs, const Attributes&) {
  constexpr Flops kFlopsPerElement = 7;
  Work work = elementwise_work(outputs, outputs, kFlopsPerElement, "optimizer");
  work.read += size_of(inputs[inputs.size() - 2]);
  return work;
}

// All states split like the gradient; the token count and a step count never.
Rows update_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows{all_broadcast(inputs.size(), outputs.size())};
  for (std::size_t dim = 0; dim < outputs[0].shape.rank(); ++dim) {
    SbpSignature row{.inputs = std::vector<Sbp>(inputs.size(), Sbp::split(dim)), .outputs = {}};
    row.inputs.back() = kBroadcast;
    for (const TensorType& state : outputs)
      row.outputs.push_back(state.shape.rank() > 0 ? Sbp::split(dim) : kBroadcast);
    rows.push_back(std::move(row));
  }
  return rows;
}

Attributes example_attributes() {
  return {{"learning_rate", 0.5}, {"beta1", 0.5},           {"beta2", 0.75},    {"epsilon", 0.125},
          {"weight_decay", 0.25}, {"parameter", "example"}, {"init", "normal"}, {"init_std", 1.0}};
}

}  // namespace

void add_optimizer(OperatorRegistry& registry) {
  registry.add({.kind = "adamw",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_adamw,
                .work = adamw_work,
                .signatures = update_rows,
                .state_outputs = {0, 1, 2, 3},
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {f64({5, 2}), f64(Shape())},
                                                       .attributes = example_attributes(),
                                                       .ranges = {{-3, 3}, {1, 3}}}};
                }});
  registry.add({.kind = "sgd",
                .min_inputs = 2,
                .max_inputs = 3,
                .infer = infer_sgd,
                .work = sgd_work,
                .signatures = update_rows,
                .state_outputs = {0, 1},
                .examples = [] {
                  OperatorExample plain{.inputs = {f64({5, 2}), f64(Shape())},
                                        .attributes = {{"learning_rate", 0.5},
                                                       {"momentum", 0.75},
                                                       {"weight_decay", 0.25},
                                                       {"parameter", "example"},
                                                       {"init", "normal"},
                                                       {"init_std", 1.0}},
                                        .ranges = {{-3, 3}, {1, 3}}};
                  OperatorExample nesterov = plain;
                  nesterov.attributes.set("nesterov", true);
                  return std::vector<OperatorExample>{plain, nesterov};
                }});
}

}  // namespace sextant
