// Model -> training graph -> physical graph -> tape, folded.
#include "experiments/accuracy/prediction.h"

#include "compiler/expand.h"
#include "compiler/memory_report.h"
#include "compiler/training_graph.h"
#include "core/check.h"
#include "experiments/accuracy/peer_models.h"
#include "experiments/accuracy/whole_layers.h"
#include "experiments/accuracy/written_attention.h"
#include "simulator/models.h"

namespace sextant {
namespace {

OptimizerOptions optimizer_of(const Software& software) {
  OptimizerOptions options;
  options.gradients = software.gradients;
  options.max_gradient_norm = 1.0;
  return options;
}

ModelConfig model_of(const Observation& observation) {
  ModelConfig model = observation.model;
  model.residual_dropout = observation.software.dropout;
  model.embedding_dropout = observation.software.dropout;
  return model;
}

LogicalGraph forward_of(const Observation& observation) {
  LogicalGraph forward =
      build_graph(model_of(observation), observation.strategy.dp * observation.strategy.micro_batch,
                  observation.sequence, observation.dtype);
  const Software& software = observation.software;
  return software.written_attention ? with_written_attention(forward, software.dropout)
                                    : std::move(forward);
}

LogicalGraph training_graph_of(const Observation& observation, const Strategy& strategy) {
  LogicalGraph training =
      make_training_graph(forward_of(observation), strategy, optimizer_of(observation.software));
  // Of selective recomputation, only what is named runs again.
  return strategy.recompute.kind == Recompute::Kind::kLayers ? with_whole_layers_repeated(training)
                                                             : std::move(training);
}

double naive_seconds(const Observation& observation) {
  constexpr double kShareOfPeak = 0.5;
  const double tokens = static_cast<double>(observation.global_batch * observation.sequence);
  const double flops = 6 * static_cast<double>(count_active_parameters(observation.model)) * tokens;
  const double peak = peak_of(observation.cluster.device, observation.dtype).flops_per_second.value;
  return flops / (static_cast<double>(observation.strategy.ranks()) * peak * kShareOfPeak);
}

// Host time per launch of ours, so that all operators together cost what they cost there.
Duration launch_cost_of(const Software& software, const PhysicalGraph& graph,
                        const CostModel& cost) {
  if (software.launch_s == 0) return cost.launch_cost();
  return duration_from_seconds(software.launch_s * operators_per_run(graph));
}

// The step, with everything that happens once per step behind backward where the program does so.
Simulation simulate_as(const Software& software, const PhysicalGraph& graph, const CostModel& cost,
                       const NetworkModel& network) {
  if (software.overlaps_gradients) return simulate(graph, cost, WithFree(network, {}));
  const std::set<const Communication*> late = once_per_step(graph);
  const Duration reductions =
      busiest(graph, simulate_timeline(graph, cost, WithFree(network, {}), {}), late);
  Simulation simulation = simulate(graph, cost, WithFree(network, late));
  simulation.step_time += reductions;
  const double seconds = to_seconds(reductions);
  StepParts::Spread& exposed = simulation.parts.exposed_communication;
  exposed = {exposed.mean_s + seconds, exposed.min_s + seconds, exposed.max_s + seconds};
  return simulation;
}

Bytes memory_beside(const Observation& observation, Bytes arena) {
  const Software& software = observation.software;
  const Strategy& strategy = observation.strategy;
  const auto logits =
      static_cast<double>(strategy.micro_batch * observation.sequence * observation.model.vocab);
  double bytes = software.allocator_share * static_cast<double>(arena.value) +
                 software.loss_bytes_per_logit * logits;
  if (strategy.dp > 1 && strategy.zero == 0)
    bytes += software.bucket_bytes_per_parameter *
             static_cast<double>(count_parameters(observation.model)) /
             static_cast<double>(strategy.tp * strategy.pp);
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace

Prediction predict(const Observation& observation) {
  const Strategy strategy = with_blocks_recomputed(observation.strategy, observation.model.layers);
  num_micro_batches(strategy, observation.global_batch);  // refuses before anything is built
  const Software& software = observation.software;
  const auto device = make_cost_model(observation.cluster, observation.dtype);
  const PeerCosts cost(*device, software, device->launch_cost());
  const auto network = make_network_model(observation.cluster);
  const LogicalGraph training = training_graph_of(observation, strategy);
  ExpandOptions options;
  options.checks = false;  // of our own work; the suites of the compiler do that
  const PhysicalGraph graph =
      compile(training, strategy, observation.global_batch, cost, *network, options);
  const PeerCosts launched(*device, software, launch_cost_of(software, graph, *device));
  const Simulation simulation = simulate_as(software, graph, launched, *network);
  return {.step_s = to_seconds(simulation.step_time),
          .parts = simulation.parts,
          .arena = simulation.peak_memory,
          .library = memory_beside(observation, simulation.peak_memory),
          .naive_s = naive_seconds(observation)};
}

}  // namespace sextant
