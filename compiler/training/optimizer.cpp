// Statistics of the gradients, the control of the step, and an update per parameter.
#include "compiler/training/optimizer.h"

#include "core/base/check.h"
#include "core/operators/movement/sources.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sextant {
namespace {

// Below this a loss scale protects nothing (Megatron-LM's min_scale).
constexpr double kSmallestLossScale = 1.0;
constexpr const char* kLossScale = "loss_scale";

int layer_of_loss(const LogicalGraph& graph) {
  return graph.op(graph.tensor(*graph.loss_sum()).producer).layer;
}

std::string dtype_of_loss(const LogicalGraph& graph) {
  return std::string(to_string(graph.tensor(*graph.loss_sum()).type.dtype));
}

bool computes_in_f16(const LogicalGraph& graph) {
  const auto tensors = graph.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const LogicalTensor& tensor) { return tensor.type.dtype == DType::kF16; });
}

OpId append(LogicalGraph& graph, std::string kind, const std::string& name,
            std::vector<TensorId> inputs, Attributes attributes, int layer,
            Phase phase = Phase::kOptimizer) {
  return graph.add({.kind = std::move(kind),
                    .name = unused_name(graph, name),
                    .attributes = std::move(attributes),
                    .inputs = std::move(inputs),
                    .outputs = {},
                    .phase = phase,
                    .layer = layer,
                    .parameter = std::nullopt});
}

Attributes scale_attributes(const LogicalGraph& graph, const LossScale& scale) {
  return {{"dtype", dtype_of_loss(graph)},   {"parameter", std::string(kLossScale)},
          {"init", std::string("constant")}, {"init_value", scale.initial},
          {"growth", scale.growth},          {"backoff", scale.backoff},
          {"minimum", kSmallestLossScale},   {"interval", scale.interval}};
}

class UpdateBuilder {
 public:
  UpdateBuilder(LogicalGraph& graph, std::span<const ParameterGradient> gradients,
                const ScaledLoss& scaled, const OptimizerOptions& options)
      : graph_(graph), gradients_(gradients), scaled_(scaled), options_(options) {}

  std::vector<Metric> run() {
    const bool is_scaled = scaled_.state.has_value() || scaled_.constant != 1.0;
    if (options_.max_gradient_norm > 0 || is_scaled) stats_ = add_stats();
    std::vector<Metric> metrics = add_control();
    if (scaled_.state) update_loss_scale();
    for (const ParameterGradient& gradient : gradients_) add_update(gradient);
    return metrics;
  }

 private:
  TensorId add_stats() {
    std::map<int, std::vector<TensorId>> of_layer;
    for (const ParameterGradient& gradient : gradients_) {
      const LogicalOp& parameter = graph_.op(gradient.parameter);
      const int layer = parameter.layer;
      of_layer[layer].push_back(graph_.output(append(
          graph_, "gradient_stats", parameter.name + ".stats", {gradient.gradient}, {}, layer)));
    }
    std::optional<TensorId> total;
    for (auto& [layer, stats] : of_layer) {
      if (total) stats.push_back(*total);
      total = graph_.output(
          append(graph_, "add_stats", fmt::format("layer{}.stats", layer), stats, {}, layer));
    }
    require(total.has_value(), ErrorCode::kBadInput,
            "a graph without parameters has no gradients to clip or to scale");
    return *total;
  }

  std::vector<Metric> add_control() {
    std::vector<TensorId> inputs = {*graph_.token_count()};
    Attributes attributes;
    if (options_.max_gradient_norm > 0) attributes.set("max_norm", options_.max_gradient_norm);
    if (scaled_.constant != 1.0) attributes.set("loss_scale", scaled_.constant);
    if (stats_) inputs.push_back(*stats_);
    if (scaled_.state) inputs.push_back(*scaled_.state);
    const OpId op = append(graph_, "update_control", "update_control", std::move(inputs),
                           std::move(attributes), layer_of_loss(graph_));
    control_ = graph_.output(op);
    std::vector<Metric> metrics;
    if (stats_) metrics.push_back({"grad_norm", graph_.output(op, 1)});
    if (scaled_.state) metrics.push_back({"loss_scale", graph_.output(op, 2)});
    return metrics;
  }

  void update_loss_scale() {
    append(graph_, "loss_scale_update", "loss_scale.update", {*scaled_.state, control_, *stats_},
           scale_attributes(graph_, options_.loss_scale), layer_of_loss(graph_));
  }

  void add_update(const ParameterGradient& gradient) {
    const LogicalOp parameter = graph_.op(gradient.parameter);
    const DType dtype = graph_.tensor(parameter.outputs[0]).type.dtype;
    require(dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kBadInput,
            "parameter '{}' is {}: {} updates f32 and f64; keep it in f32 and cast where it is "
            "used",
            parameter.name, to_string(dtype), to_string(options_.kind));
    if (options_.kind == OptimizerKind::kLamb)
      add_lamb(parameter, gradient.gradient);
    else
      append_update(std::string(to_string(options_.kind)), parameter,
                    {parameter.outputs[0], gradient.gradient, control_}, all_settings(parameter));
  }

  // Norms need whole tensors, so LAMB is three operators: README of core/operators, "Optimizer".
  void add_lamb(const LogicalOp& parameter, TensorId gradient) {
    const TensorId weight = parameter.outputs[0];
    const OpId made = append(graph_, "lamb_direction", parameter.name + ".lamb_direction",
                             {gradient, weight, control_}, settings(parameter), parameter.layer);
    const TensorId direction = graph_.output(made, 0), rate = graph_.output(made, 4);
    const TensorId norms =
        graph_.output(append(graph_, "lamb_norms", parameter.name + ".lamb_norms",
                             {weight, direction}, {}, parameter.layer));
    Attributes attributes = initial_value(parameter);
    // As in the authors' code: what does not decay is not adapted either.
    if (!decays(parameter)) attributes.set("adapts", false);
    append_update("lamb_apply", parameter, {weight, direction, norms, rate, control_},
                  std::move(attributes));
  }

  void append_update(std::string kind, const LogicalOp& parameter, std::vector<TensorId> inputs,
                     Attributes attributes) {
    const std::string name = fmt::format("{}.{}", parameter.name, to_string(options_.kind));
    append(graph_, std::move(kind), name, std::move(inputs), std::move(attributes),
           parameter.layer);
  }

  static bool decays(const LogicalOp& parameter) {
    return !parameter.parameter || parameter.parameter->weight_decay;
  }

  // What the physical actor needs to start its state (core/operators/README.md).
  static Attributes initial_value(const LogicalOp& parameter) {
    Attributes attributes{{"parameter", parameter.name}};
    set_initializer(attributes, initializer_of(parameter.attributes));
    return attributes;
  }

  // And to update it.
  Attributes all_settings(const LogicalOp& parameter) const {
    Attributes attributes = settings(parameter);
    const Attributes initial = initial_value(parameter);
    for (const auto& [name, value] : initial.entries()) attributes.set(name, value);
    return attributes;
  }

  Attributes settings(const LogicalOp& parameter) const {
    Attributes attributes{{"learning_rate", options_.learning_rate},
                          {"weight_decay", decays(parameter) ? options_.weight_decay : 0.0},
                          {"parameter", parameter.name}};
    if (options_.warm_up > 0) attributes.set("warm_up", options_.warm_up);
    if (options_.schedule != RateSchedule::kConstant) {
      attributes.set("schedule", std::string(to_string(options_.schedule)));
      attributes.set("total_updates", options_.total);
      attributes.set("minimum_rate", options_.minimum_rate);
    }
    switch (options_.kind) {
      case OptimizerKind::kSgd:
        break;
      case OptimizerKind::kMomentum:
        attributes.set("momentum", options_.momentum);
        if (options_.nesterov) attributes.set("nesterov", true);
        break;
      case OptimizerKind::kAdamW:
      case OptimizerKind::kLamb:
        attributes.set("beta1", options_.beta1);
        attributes.set("beta2", options_.beta2);
        attributes.set("epsilon", options_.epsilon);
        break;
    }
    return attributes;
  }

  LogicalGraph& graph_;
  std::span<const ParameterGradient> gradients_;
  const ScaledLoss& scaled_;
  const OptimizerOptions& options_;
  std::optional<TensorId> stats_;
  TensorId control_;
};

}  // namespace

ScaledLoss add_loss_scale(LogicalGraph& graph, const LossScale& scale) {
  ScaledLoss scaled;
  const bool is_dynamic = scale.kind == LossScale::Kind::kDynamic ||
                          (scale.kind == LossScale::Kind::kAutomatic && computes_in_f16(graph));
  require(graph.loss_sum().has_value(), ErrorCode::kBadInput, "the graph has no loss");
  const int layer = layer_of_loss(graph);
  if (is_dynamic) {
    scaled.state = graph.output(append(graph, kLossScale, kLossScale, {},
                                       scale_attributes(graph, scale), layer, Phase::kForward));
    scaled.seed = scaled.state;
  } else if (scale.kind == LossScale::Kind::kStatic && scale.initial != 1.0) {
    scaled.constant = scale.initial;
    scaled.seed = graph.output(append(graph, "constant", kLossScale, {},
                                      {{"shape", std::vector<std::int64_t>()},
                                       {"dtype", dtype_of_loss(graph)},
                                       {"value", scale.initial}},
                                      layer, Phase::kInputGrad));
  }
  return scaled;
}

std::vector<Metric> add_updates(LogicalGraph& graph, std::span<const ParameterGradient> gradients,
                                const ScaledLoss& scaled, const OptimizerOptions& options) {
  return UpdateBuilder(graph, gradients, scaled, options).run();
}

}  // namespace sextant
