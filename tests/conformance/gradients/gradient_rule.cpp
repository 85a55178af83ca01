// Autodiff for a single operator.
#include "tests/conformance/gradients/gradient_rule.h"

#include "core/base/error.h"
#include "core/operators/movement/sources.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sextant {
namespace {

class RuleContext final : public GradientContext {
 public:
  explicit RuleContext(GradientRule& rule) : rule_(rule), op_(rule.graph.op(rule.op)) {}

  const LogicalGraph& graph() const override { return rule_.graph; }
  const LogicalOp& op() const override { return op_; }
  TensorId input(std::size_t index) const override { return op_.inputs[index]; }
  TensorId output(std::size_t index) const override { return op_.outputs[index]; }
  std::optional<TensorId> output_gradient(std::size_t index) const override {
    return rule_.arriving[index];
  }
  bool wants(std::size_t input) const override {
    return is_floating(graph().tensor(op_.inputs[input]).type.dtype);
  }
  bool is_weight(std::size_t) const override { return false; }
  TensorId add(std::string kind, std::vector<TensorId> inputs, Attributes attributes,
               std::size_t) override {
    const std::string name = "gradient" + std::to_string(rule_.graph.ops().size());
    return rule_.graph.output(rule_.graph.add({.kind = std::move(kind),
                                               .name = name,
                                               .attributes = std::move(attributes),
                                               .inputs = std::move(inputs),
                                               .outputs = {},
                                               .phase = Phase::kInputGrad,
                                               .layer = 0,
                                               .parameter = std::nullopt}));
  }
  std::vector<TensorId> outputs_of_last() const override {
    return rule_.graph.ops().back().outputs;
  }
  void set_input_gradient(std::size_t input, TensorId gradient) override {
    if (wants(input)) rule_.made[input] = gradient;
  }

 private:
  GradientRule& rule_;
  LogicalOp op_;  // a copy: appending moves the operators
};

}  // namespace

GradientRule apply_gradient_rule(const SignatureCase& on, const std::vector<std::size_t>& outputs) {
  GradientRule rule;
  for (std::size_t i = 0; i < on.on.inputs.size(); ++i)
    rule.inputs.push_back(add_input(rule.graph, "in" + std::to_string(i), 0, on.on.inputs[i]));
  rule.arriving.resize(on.outputs.size());
  for (const std::size_t output : outputs)
    rule.arriving[output] =
        add_input(rule.graph, "arriving" + std::to_string(output), 0, on.outputs[output]);
  rule.op = rule.graph.add({.kind = on.def->kind,
                            .name = "op",
                            .attributes = on.on.attributes,
                            .inputs = rule.inputs,
                            .outputs = {},
                            .phase = Phase::kForward,
                            .layer = 0,
                            .parameter = std::nullopt});
  rule.outputs = rule.graph.op(rule.op).outputs;
  rule.made.resize(rule.inputs.size());
  RuleContext context(rule);
  on.def->gradient(context);
  return rule;
}

std::vector<std::size_t> differentiable_outputs(const SignatureCase& on) {
  std::vector<std::size_t> outputs;
  const bool has_slope =
      std::any_of(on.on.inputs.begin(), on.on.inputs.end(),
                  [](const TensorType& type) { return is_floating(type.dtype); });
  if (on.def->gradient == nullptr || !has_slope) return outputs;
  for (std::size_t i = 0; i < on.outputs.size(); ++i) {
    if (!is_floating(on.outputs[i].dtype)) continue;
    try {
      apply_gradient_rule(on, {i});
      outputs.push_back(i);
    } catch (const Error&) {
      continue;  // the rule says so; kinds_without_gradient.txt says why
    }
  }
  return outputs;
}

}  // namespace sextant
