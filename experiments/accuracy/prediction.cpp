// Model -> training graph -> physical graph -> tape, folded.
#include "experiments/accuracy/prediction.h"

#include "compiler/expand/expand.h"
#include "compiler/training/recompute.h"
#include "compiler/training/training_graph.h"
#include "core/base/check.h"
#include "experiments/accuracy/allocator_replay.h"
#include "experiments/accuracy/kept_products.h"
#include "experiments/accuracy/kernel_seconds.h"
#include "experiments/accuracy/peer_models.h"
#include "experiments/accuracy/pytorch_graph.h"
#include "experiments/accuracy/whole_layers.h"
#include "experiments/accuracy/written_attention.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace sextant {
namespace {

OptimizerOptions optimizer_of(const Software& software) {
  OptimizerOptions options;
  options.gradients = software.gradients;
  options.max_gradient_norm = software.max_gradient_norm;
  return options;
}

ModelConfig model_of(const Observation& observation) {
  ModelConfig model = observation.model;
  model.residual_dropout = observation.software.dropout;
  model.embedding_dropout = observation.software.dropout;
  return model;
}

// Written out, a loss splits tokens alone: a head that is split over its classes stays as it is.
bool writes_loss(const Observation& observation) {
  return observation.software.written_loss &&
         (observation.strategy.tp == 1 || !observation.strategy.pins.empty());
}

LogicalGraph forward_of(const Observation& observation) {
  LogicalGraph forward =
      build_graph(model_of(observation), observation.strategy.dp * observation.strategy.micro_batch,
                  observation.sequence, observation.dtype);
  const Software& software = observation.software;
  if (software.written_attention) return with_written_attention(forward, software.dropout);
  if (!software.written_loss && !software.chains_norms) return forward;
  return as_pytorch(
      forward, {.writes_loss = writes_loss(observation), .chains_norms = software.chains_norms});
}

LogicalGraph training_graph_of(const Observation& observation, const Strategy& strategy) {
  const OptimizerOptions optimizer = optimizer_of(observation.software);
  if (observation.keeps_products) {
    Strategy without = strategy;
    without.recompute = {};
    LogicalGraph training = make_training_graph(forward_of(observation), without, optimizer);
    const std::vector<bool> kept = kept_products(training);
    return with_recompute(std::move(training), strategy, kept);
  }
  LogicalGraph training = make_training_graph(forward_of(observation), strategy, optimizer);
  // Of selective recomputation, only what is named runs again.
  return observation.software.repeats_whole_layers &&
                 strategy.recompute.kind == Recompute::Kind::kLayers
             ? with_whole_layers_repeated(training)
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
                       const NetworkModel& network, bool hides_tensor_sums) {
  if (software.overlaps_gradients) {
    SimulateOptions options;
    if (software.compute_beside_communication < 1) {
      options.mode = SimulationMode::kTimed;
      options.overlap.assign(graph.ranks.size(),
                             {.compute = software.compute_beside_communication});
    }
    const auto hidden = hides_tensor_sums ? tensor_sums(graph) : std::set<const Communication*>();
    return simulate(graph, cost, WithFree(network, hidden), options);
  }
  const std::set<const Communication*> late = once_per_step(graph);
  const Duration reductions = busiest(
      graph,
      simulate_timeline(graph, cost, WithFlat(network, late, software.sums_whole_gradients), {}),
      late);
  Simulation simulation = simulate(graph, cost, WithFree(network, late));
  simulation.step_time += reductions;
  const double seconds = to_seconds(reductions);
  StepParts::Spread& exposed = simulation.parts.exposed_communication;
  exposed = {exposed.mean_s + seconds, exposed.min_s + seconds, exposed.max_s + seconds};
  return simulation;
}

// What the host and copies beside collectives add to the step.
double added_seconds(const Observation& observation, const PhysicalGraph& graph,
                     double optimizer_s) {
  const Software& software = observation.software;
  const Strategy& strategy = observation.strategy;
  const DeviceKind& device = observation.cluster.device;
  const double parameters = static_cast<double>(count_parameters(observation.model)) /
                            static_cast<double>(strategy.tp * strategy.pp);
  const double bytes_per_second = device.memory_bandwidth.value * device.memory_efficiency.value;
  const auto passes = static_cast<double>(num_micro_batches(strategy, observation.global_batch));
  double copied = software.added_up_bytes * passes;
  if (strategy.dp > 1 && strategy.zero == 3)
    copied += software.copied_bytes_sharded * passes;
  else if (strategy.dp > 1)
    copied += software.copied_bytes_replicated;
  const double updates = software.update_s * static_cast<double>(updates_per_step(graph));
  return copied * parameters / bytes_per_second + std::max(0.0, updates - optimizer_s);
}

// Of the program that counts most.
AllocatorUse allocator_use(const Observation& observation, const LogicalGraph& training,
                           const PhysicalGraph& graph) {
  ReplayRules rules;
  if (observation.software.gathers_units && observation.strategy.zero == 3)
    rules.gathered = observation.dtype;
  if (observation.software.is_all_in_compute_type) rules.all_in = observation.dtype;
  if (observation.software.collects_outputs)
    rules.collected = {fmt::format("layer{}.head", observation.model.layers + 1)};
  rules.workspace = Bytes(std::llround(observation.cluster.device.library_memory.workspace.value));
  if (observation.keeps_products) rules.kept = names_of(training, kept_products(training));
  const bool is_reserved = observation.software.counted == Software::Counted::kReserved;
  AllocatorUse most;
  for (const RankProgram& program : graph.programs) {
    const AllocatorUse use = replay_allocator(graph, program, rules);
    if (is_reserved ? use.reserved > most.reserved : use.allocated > most.allocated) most = use;
  }
  return most;
}

Bytes share_of(Bytes bytes, double share) {
  return Bytes(static_cast<std::int64_t>(share * static_cast<double>(bytes.value)));
}

EightBitLayers eight_bit_layers(const Observation& observation) {
  if (!observation.eight_bit_products) return {};
  const Strategy& strategy = observation.strategy;
  return {.tokens = static_cast<double>(strategy.micro_batch * observation.sequence / strategy.cp),
          .classes = static_cast<double>(observation.model.vocab / strategy.tp),
          .use = eight_bit_use(observation.cluster.device.name)};
}

std::vector<LibraryUse> memory_beside(const Observation& observation, const LogicalGraph& training,
                                      const PhysicalGraph& graph, Bytes arena) {
  const Software& software = observation.software;
  const Strategy& strategy = observation.strategy;
  std::vector<LibraryUse> uses;
  const auto add = [&](const char* name, Bytes bytes, Provenance provenance, const char* source) {
    if (bytes != Bytes(0)) uses.push_back({name, bytes, provenance, source});
  };
  if (software.counted != Software::Counted::kArena) {
    const AllocatorUse use = allocator_use(observation, training, graph);
    add("allocator: allocated beyond the arena", use.allocated - arena, Provenance::kAssumed,
        "replay of the plan by the rules of PyTorch's allocator");
    if (software.counted == Software::Counted::kReserved)
      add("allocator: reserved beyond allocated", use.reserved - use.allocated,
          Provenance::kAssumed, "replay of the plan by the rules of PyTorch's allocator");
  }
  add("allocator: rounding and holes", share_of(arena, software.allocator_share),
      Provenance::kAssumed, "a share of the arena");
  if (strategy.dp > 1 && strategy.zero == 0)
    add("buckets of gradients",
        share_of(Bytes(count_parameters(observation.model) / (strategy.tp * strategy.pp)),
                 software.bucket_bytes_per_parameter),
        Provenance::kCalibrated, "published run p0004 (experiments/accuracy)");
  return uses;
}

}  // namespace

Prediction predict(const Observation& observation) {
  const Strategy strategy = with_blocks_recomputed(observation.strategy, observation.model.layers);
  num_micro_batches(strategy, observation.global_batch);  // refuses before anything is built
  const Software& software = observation.software;
  const auto device = make_cost_model(observation.cluster, observation.dtype);
  const DeviceKind& kind = observation.cluster.device;
  const double attention_share = attention_rate(software.attention, kind.name,
                                                observation.model.head_size, observation.sequence) /
                                 kind.matmul_efficiency.value;
  const ProductUse products = product_use(software.products, kind.name);
  const EightBitLayers eight_bit = eight_bit_layers(observation);
  const PeerCosts cost(*device, software, attention_share, device->launch_cost(), 1, products,
                       eight_bit);
  const auto network = make_network_model(observation.cluster);
  const LogicalGraph training = training_graph_of(observation, strategy);
  ExpandOptions options;
  options.checks = false;  // of our own work; the suites of the compiler do that
  const PhysicalGraph graph =
      compile(training, strategy, observation.global_batch, cost, *network, options);
  const bool waits = software.waits_for_transfers && strategy.pp > 1;
  const PeerCosts launched =
      waits ? PeerCosts(*device, software, attention_share, device->launch_cost(),
                        host_slowdown(graph, cost, software.launch_s), products, eight_bit)
            : PeerCosts(*device, software, attention_share,
                        launch_cost_of(software, graph, *device), 1, products, eight_bit);
  const Simulation simulation = simulate_as(software, graph, launched, *network,
                                            software.hides_tensor_sums && strategy.zero < 3);
  const double added = added_seconds(observation, graph, simulation.parts.optimizer.mean_s);
  return {.step_s = to_seconds(simulation.step_time) + added,
          .parts = simulation.parts,
          .kernels_s = kernel_seconds(graph, launched),
          .added_s = added,
          .arena = simulation.peak_memory,
          .library = memory_beside(observation, training, graph, simulation.peak_memory),
          .naive_s = naive_seconds(observation)};
}

}  // namespace sextant
