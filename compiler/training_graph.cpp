// Forward graph -> training graph: gradients, one AdamW per parameter, and the metrics sink.
#include "compiler/training_graph.h"

#include "compiler/autodiff.h"
#include "compiler/context_parallel.h"
#include "core/check.h"
#include "core/operator.h"
#include "core/operators/sources.h"

#include <utility>

namespace sextant {
namespace {

// Whatever the physical actor needs to start and update its state (core/operators/README.md).
Attributes adamw_attributes(const LogicalOp& parameter, const OptimizerOptions& options) {
  const bool decays = !parameter.parameter || parameter.parameter->weight_decay;
  Attributes attributes{{"learning_rate", options.learning_rate},
                        {"beta1", options.beta1},
                        {"beta2", options.beta2},
                        {"epsilon", options.epsilon},
                        {"weight_decay", decays ? options.weight_decay : 0.0},
                        {"parameter", parameter.name}};
  set_initializer(attributes, initializer_of(parameter.attributes));
  return attributes;
}

void add_adamw(LogicalGraph& graph, const ParameterGradient& gradient,
               const OptimizerOptions& options) {
  const LogicalOp& parameter = graph.op(gradient.parameter);
  const TensorId tensor = graph.output(gradient.parameter);
  const DType dtype = graph.tensor(tensor).type.dtype;
  require(
      dtype == DType::kF32 || dtype == DType::kF64, ErrorCode::kBadInput,
      "parameter '{}' is {}: AdamW updates f32 and f64; keep it in f32 and cast where it is used",
      parameter.name, to_string(dtype));
  graph.add({.kind = "adamw",
             .name = unused_name(graph, parameter.name + ".adamw"),
             .attributes = adamw_attributes(parameter, options),
             .inputs = {tensor, gradient.gradient, *graph.token_count()},
             .outputs = {},
             .phase = Phase::kOptimizer,
             .layer = parameter.layer,
             .parameter = std::nullopt});
}

void add_metrics(LogicalGraph& graph) {
  const TensorId loss = *graph.loss_sum(), token_count = *graph.token_count();
  graph.add({.kind = "metrics",
             .name = unused_name(graph, "metrics"),
             .attributes = {{"names", "loss_sum,token_count"}},
             .inputs = {loss, token_count},
             .outputs = {},
             .phase = Phase::kData,
             .layer = graph.op(graph.tensor(loss).producer).layer,
             .parameter = std::nullopt});
}

}  // namespace

LogicalGraph make_training_graph(const LogicalGraph& forward, const OptimizerOptions& options) {
  return make_training_graph(forward, Strategy(), options);
}

std::string training_graph_key(const Strategy& strategy) {
  std::string key = fmt::format("samples={}", strategy.dp * strategy.micro_batch);
  if (strategy.cp > 1 && strategy.context == ContextMode::kRing)
    key += fmt::format(" ring={}", strategy.cp);
  return key;
}

LogicalGraph make_training_graph(const LogicalGraph& forward, const Strategy& strategy,
                                 const OptimizerOptions& options) {
  LogicalGraph training = forward;
  for (const ParameterGradient& gradient : append_gradients(training))
    add_adamw(training, gradient, options);
  add_metrics(training);
  return with_rings(training, strategy);
}

}  // namespace sextant
