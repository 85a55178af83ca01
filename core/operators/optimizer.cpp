// The AdamW update of one parameter.
//
// | parameter | gradient | token_count | parameter, m, v | step | |
// |---|---|---|---|---|---|
// | B | B | B | B | B | |
// | S(d) | S(d) | B | S(d) | B | element by element: ZeRO-1 is this row over dp |
//
// Two forms of one kind. In the logical training graph the parameter is an input like any other. In
// the staged and the physical graph `parameter` and its `adamw` are one actor: that input is
// dropped, because output 0 is that tensor (README, "Optimizer"). All outputs are state.
#include "core/check.h"
#include "core/operator.h"
#include "core/operators/families.h"
#include "core/operators/rules.h"

namespace sextant {
namespace {

constexpr std::size_t kNumStates = 4;  // parameter, m, v, step

void require_options(const Attributes& attributes) {
  for (const char* name : {"learning_rate", "beta1", "beta2", "epsilon", "weight_decay"})
    attributes.real(name);
}

std::vector<TensorType> infer_adamw(Types inputs, const Attributes& attributes) {
  require_options(attributes);
  const TensorType& gradient = inputs[inputs.size() - 2];
  require(gradient.dtype == DType::kF32 || gradient.dtype == DType::kF64, ErrorCode::kBadInput,
          "adamw: gradient is {}, wanted f32 or f64", to_text(gradient));
  if (inputs.size() == 3) require_type("adamw", "parameter", inputs[0], gradient);
  const TensorType& token_count = inputs.back();
  require_shape("adamw", "token_count", token_count, Shape());
  require_floating("adamw", "token_count", token_count);
  return {gradient, gradient, gradient, {.shape = Shape(), .dtype = DType::kI64}};
}

// Reads parameter, m, v and the gradient, writes the first three.
Work adamw_work(Types inputs, Types outputs, const Attributes&) {
  constexpr Flops kFlopsPerElement = 16;
  const TensorType& gradient = inputs[inputs.size() - 2];
  Work work = elementwise_work(outputs.first(3), outputs, kFlopsPerElement, "optimizer");
  work.read += size_of(gradient);
  return work;
}

Rows adamw_rows(Types inputs, Types outputs, const Attributes&) {
  Rows rows{all_broadcast(inputs.size(), kNumStates)};
  for (std::size_t dim = 0; dim < outputs[0].shape.rank(); ++dim) {
    std::vector<Sbp> in(inputs.size(), Sbp::split(dim)), out(kNumStates, Sbp::split(dim));
    in.back() = out.back() = kBroadcast;
    rows.push_back({std::move(in), std::move(out)});
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
                .signatures = adamw_rows,
                .state_outputs = {0, 1, 2, 3},
                .examples = [] {
                  return std::vector<OperatorExample>{{.inputs = {f64({5, 2}), f64(Shape())},
                                                       .attributes = example_attributes(),
                                                       .ranges = {{-3, 3}, {1, 3}}}};
                }});
}

}  // namespace sextant
