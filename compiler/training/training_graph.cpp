// Forward graph -> training graph: gradients, one update per parameter, and the metrics sink.
#include "compiler/training/training_graph.h"

#include "compiler/training/autodiff.h"
#include "compiler/training/context_parallel.h"
#include "compiler/training/dead_operators.h"
#include "compiler/training/dropped_choices.h"
#include "compiler/training/eight_bit_products.h"
#include "compiler/training/optimizer.h"
#include "compiler/training/recompute.h"
#include "core/base/check.h"
#include "core/graphs/operator.h"

#include <utility>
#include <vector>

namespace sextant {
namespace {

void add_metrics(LogicalGraph& graph, const std::vector<Metric>& metrics) {
  const TensorId loss = *graph.loss_sum();
  std::string names = "loss_sum,token_count";
  std::vector<TensorId> values = {loss, *graph.token_count()};
  for (const Metric& metric : metrics) {
    names += "," + metric.name;
    values.push_back(metric.value);
  }
  graph.add({.kind = "metrics",
             .name = unused_name(graph, "metrics"),
             .attributes = {{"names", names}},
             .inputs = std::move(values),
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
  if (strategy.precision != Precision::kCompute)
    key += fmt::format(" precision={}", to_string(strategy.precision));
  if (strategy.recompute != Recompute()) key += " " + recompute_key(strategy);
  return key;
}

LogicalGraph make_training_graph(const LogicalGraph& forward, const Strategy& strategy,
                                 const OptimizerOptions& options) {
  validate(options);
  LogicalGraph training = forward;
  const std::vector<LayerCount> dropped = add_drop_counts(training);
  const ScaledLoss scaled = add_loss_scale(training, options.loss_scale);
  const std::vector<ParameterGradient> gradients = append_gradients(
      training,
      {.seed = scaled.seed, .in_compute_type = options.gradients == GradientType::kCompute});
  std::vector<Metric> metrics = add_updates(training, gradients, scaled, options);
  if (const auto total = add_drop_total(training, dropped)) metrics.push_back(*total);
  add_metrics(training, metrics);
  training = with_eight_bit_products(without_dead_operators(std::move(training)), strategy);
  training = with_recompute(std::move(training), strategy);
  return with_rings(std::move(training), strategy);
}

}  // namespace sextant
