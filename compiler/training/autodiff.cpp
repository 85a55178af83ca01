// Reverse-mode differentiation. One pass over the operators, last to first: when an operator's turn
// comes, every use of its outputs has contributed to their gradients.
#include "compiler/training/autodiff.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sextant {
namespace {

// What the pass knows about a tensor of the forward graph.
struct TensorFacts {
  bool wants_gradient = false;  // a parameter is among its ancestors
  bool is_weight = false;       // no input is: the same for every micro-batch of a step
  std::vector<TensorId> contributions;
};

std::string dtype_text(DType dtype) { return std::string(to_string(dtype)); }

// By tensor of the forward graph.
std::vector<TensorFacts> facts_of(const LogicalGraph& graph) {
  std::vector<TensorFacts> all(graph.tensors().size());
  const auto facts = [&](TensorId tensor) -> TensorFacts& { return all[tensor.index()]; };
  for (const LogicalOp& op : graph.ops()) {
    bool wants_gradient = op.role == OperatorRole::kParameter,
         is_weight = op.role != OperatorRole::kInput;
    for (const TensorId input : op.inputs) {
      wants_gradient = wants_gradient || facts(input).wants_gradient;
      is_weight = is_weight && facts(input).is_weight;
    }
    for (const TensorId output : op.outputs) {
      facts(output).wants_gradient = wants_gradient && is_floating(graph.tensor(output).type.dtype);
      facts(output).is_weight = is_weight;
    }
  }
  return all;
}

class Autodiff final : public GradientContext {
 public:
  Autodiff(LogicalGraph& graph, const GradientOptions& options)
      : graph_(graph),
        options_(options),
        num_forward_ops_(graph.ops().size()),
        facts_(facts_of(graph)) {}

  std::vector<ParameterGradient> run() {
    require(graph_.loss_sum().has_value(), ErrorCode::kBadInput, "the graph has no loss");
    seed();
    std::vector<ParameterGradient> gradients;
    for (std::size_t index = num_forward_ops_; index-- > 0;) {
      op_id_ = OpId(index);
      op_ = graph_.op(op_id_);  // a copy: appending moves the operators
      if (op_.role == OperatorRole::kParameter) {
        if (has_updater()) continue;
        gradients.push_back({.parameter = op_id_, .gradient = parameter_gradient()});
      } else if (has_work()) {
        differentiate();
      }
    }
    std::reverse(gradients.begin(), gradients.end());
    return gradients;
  }

  // GradientContext

  const LogicalGraph& graph() const override { return graph_; }
  const LogicalOp& op() const override { return op_; }
  TensorId input(std::size_t index) const override { return op_.inputs[index]; }
  TensorId output(std::size_t index) const override { return op_.outputs[index]; }
  std::optional<TensorId> output_gradient(std::size_t index) const override {
    return output_gradients_[index];
  }
  bool wants(std::size_t input) const override { return facts(op_.inputs[input]).wants_gradient; }
  bool is_weight(std::size_t input) const override {
    return facts(op_.inputs[input]).is_weight && !options_.in_compute_type;
  }

  TensorId add(std::string kind, std::vector<TensorId> inputs, Attributes attributes,
               std::size_t for_input) override {
    const bool is_weight = facts(op_.inputs[for_input]).is_weight;
    const Phase phase = phase_of(inputs, is_weight);
    const std::string base = op_.name + (is_weight ? ".grad_weight" : ".grad_input");
    return append(std::move(kind), base, std::move(inputs), std::move(attributes), phase);
  }

  std::vector<TensorId> outputs_of_last() const override { return graph_.ops().back().outputs; }

  void set_input_gradient(std::size_t input, TensorId gradient) override {
    const TensorId tensor = op_.inputs[input];
    if (!wants(input)) return;
    SEXTANT_INVARIANT(type(gradient).shape == type(tensor).shape,
                      "operator '{}': the gradient of input {} has shape {}, the input {}",
                      op_.name, input, to_string(type(gradient).shape),
                      to_string(type(tensor).shape));
    TensorFacts& target = facts(tensor);
    if (target.is_weight || target.contributions.empty()) {
      target.contributions.push_back(gradient);
    } else {
      // One running sum, so that a layer hands one gradient to the layer before it.
      target.contributions[0] = sum(tensor, target.contributions[0], gradient, Phase::kInputGrad);
    }
  }

 private:
  TensorFacts& facts(TensorId tensor) { return facts_[tensor.index()]; }
  const TensorFacts& facts(TensorId tensor) const { return facts_[tensor.index()]; }
  const TensorType& type(TensorId tensor) const { return graph_.tensor(tensor).type; }

  // The derivative of the loss sum by itself.
  void seed() {
    const TensorId loss = *graph_.loss_sum();
    op_ = graph_.op(graph_.tensor(loss).producer);
    if (options_.seed) {
      require(type(*options_.seed) == type(loss), ErrorCode::kBadInput,
              "the gradients start from '{}', which has another type than the loss '{}'",
              graph_.tensor(*options_.seed).name, graph_.tensor(loss).name);
      facts(loss).contributions.push_back(*options_.seed);
      return;
    }
    facts(loss).contributions.push_back(append("constant", op_.name + ".grad_seed", {},
                                               {{"shape", std::vector<std::int64_t>()},
                                                {"dtype", dtype_text(type(loss).dtype)},
                                                {"value", 1.0}},
                                               Phase::kInputGrad));
  }

  bool has_work() const {
    const auto has_gradient = [&](TensorId id) { return !facts(id).contributions.empty(); };
    const auto wants_gradient = [&](TensorId id) { return facts(id).wants_gradient; };
    return std::any_of(op_.outputs.begin(), op_.outputs.end(), has_gradient) &&
           std::any_of(op_.inputs.begin(), op_.inputs.end(), wants_gradient);
  }

  void differentiate() {
    const OperatorDef& def = graph_.registry().get(op_.kind);
    require(def.gradient != nullptr, ErrorCode::kBadInput,
            "operator '{}': {} has no gradient rule, but the loss depends on it", op_.name,
            op_.kind);
    output_gradients_.clear();
    for (const TensorId output : op_.outputs) output_gradients_.push_back(gradient_of(output));
    if (is_cast_of_weight() && options_.in_compute_type)
      set_input_gradient(0, *output_gradients_[0]);
    else
      def.gradient(*this);
  }

  // Kept by an operator of the model itself, as running statistics are: not trained.
  bool has_updater() const {
    const auto uses = graph_.uses(op_.outputs[0]);
    return std::any_of(uses.begin(), uses.end(), [&](const LogicalGraph::Use& use) {
      return !graph_.registry().get(graph_.op(use.op).kind).state_outputs.empty();
    });
  }

  bool is_cast_of_weight() const {
    return op_.role == OperatorRole::kCast && facts(op_.inputs[0]).is_weight;
  }

  TensorId parameter_gradient() {
    const TensorId parameter = op_.outputs[0];
    std::optional<TensorId> gradient = gradient_of(parameter);
    require(gradient.has_value(), ErrorCode::kBadInput,
            "parameter '{}' does not reach the loss, so it cannot be trained", op_.name);
    const DType dtype = type(*gradient).dtype, wanted = type(parameter).dtype;
    const bool may_be_narrow = options_.in_compute_type && size_of(dtype) < size_of(wanted);
    if (dtype == wanted || (may_be_narrow && wanted == DType::kF32)) return *gradient;
    return cast(*gradient, type(parameter).dtype);
  }

  // The gradient that arrived at a tensor that the current operator made.
  std::optional<TensorId> gradient_of(TensorId tensor) {
    const std::vector<TensorId>& contributions = facts(tensor).contributions;
    if (contributions.empty()) return std::nullopt;
    TensorId total = contributions[0];
    for (std::size_t i = 1; i < contributions.size(); ++i)
      total = sum(tensor, total, contributions[i], Phase::kOptimizer);
    const bool has_fitting_type =
        facts(tensor).is_weight || type(total).dtype == type(tensor).dtype;
    return has_fitting_type ? total : cast(total, type(tensor).dtype);
  }

  // a + b in the wider of their types.
  TensorId sum(TensorId tensor, TensorId a, TensorId b, Phase phase) {
    const DType a_dtype = type(a).dtype, b_dtype = type(b).dtype;
    const DType dtype = size_of(a_dtype) < size_of(b_dtype) ? b_dtype : a_dtype;
    if (a_dtype != dtype) a = cast(a, dtype);
    if (b_dtype != dtype) b = cast(b, dtype);
    return append("add", graph_.tensor(tensor).name + ".grad_sum", {a, b}, {}, phase);
  }

  // In the phase of what it reads: a gradient that accumulates is rounded before it does.
  TensorId cast(TensorId gradient, DType dtype) {
    const Phase phase = graph_.op(graph_.tensor(gradient).producer).phase;
    return append("cast", graph_.tensor(gradient).name + ".cast", {gradient},
                  {{"dtype", dtype_text(dtype)}}, phase);
  }

  Phase phase_of(const std::vector<TensorId>& inputs, bool is_weight) const {
    for (const TensorId input : inputs)
      if (graph_.op(graph_.tensor(input).producer).phase == Phase::kOptimizer)
        return Phase::kOptimizer;
    return is_weight ? Phase::kWeightGrad : Phase::kInputGrad;
  }

  TensorId append(std::string kind, const std::string& base, std::vector<TensorId> inputs,
                  Attributes attributes, Phase phase) {
    return graph_.output(graph_.add({.kind = std::move(kind),
                                     .name = unused_name(graph_, base),
                                     .attributes = std::move(attributes),
                                     .inputs = std::move(inputs),
                                     .outputs = {},
                                     .phase = phase,
                                     .layer = op_.layer,
                                     .parameter = std::nullopt}));
  }

  LogicalGraph& graph_;
  const GradientOptions& options_;
  std::size_t num_forward_ops_;
  std::vector<TensorFacts> facts_;  // of the forward tensors, by id
  // The operator being differentiated.
  OpId op_id_;
  LogicalOp op_;
  std::vector<std::optional<TensorId>> output_gradients_;
};

}  // namespace

std::vector<ParameterGradient> append_gradients(LogicalGraph& graph,
                                                const GradientOptions& options) {
  return Autodiff(graph, options).run();
}

std::string unused_name(const LogicalGraph& graph, const std::string& base) {
  std::string name = base;
  for (int i = 2; graph.find_op(name); ++i) name = fmt::format("{}_{}", base, i);
  return name;
}

}  // namespace sextant
