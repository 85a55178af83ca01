// One strategy: compiled, simulated, with what it needs of its devices.
#include "search/problem/candidate.h"

#include "actor/protocol/proven_graph.h"
#include "compiler/expand/expand.h"
#include "simulator/costs/models.h"
#include "simulator/modes/prepared_graph.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

namespace {

Bytes most_needed(const PhysicalGraph& graph, std::span<const Bytes> arenas, const Cluster& cluster,
                  const DeviceMemory& least) {
  if (cluster.other_devices.empty()) return least.needed();  // equal devices: least room, most need
  Bytes most;
  for (const Rank rank : graph.ranks.keys()) {
    const auto libraries = library_memory(cluster.device_of(rank), communicators_of(graph, rank));
    most = std::max(most, arenas[graph.ranks[rank].program.index()] + total(libraries));
  }
  return most;
}

}  // namespace

SearchModels make_search_models(const SearchProblem& problem) {
  TimingModels models = make_timing_models(*problem.cluster, problem.compute_dtype);
  const auto boxing = std::make_shared<BoxingTables>(models.network.get(), models.cost.get());
  return {std::move(models.cost), std::move(models.network), problem.cluster, boxing};
}

Candidate evaluate_strategy(const LogicalGraph& training, const Strategy& strategy,
                            std::int64_t global_batch, const SearchModels& models,
                            const StopPoll& stop) {
  return evaluate_strategy(training, strategy, global_batch, models, ExpandOptions(), stop);
}

Candidate evaluate_strategy(const LogicalGraph& training, const Strategy& strategy,
                            std::int64_t global_batch, const SearchModels& models,
                            const ExpandOptions& given, const StopPoll& stop) {
  ExpandOptions options = given;
  options.schedule = strategy.schedule;
  options.checks = false;
  options.stop = stop;
  if (models.cluster != nullptr) options.room = arena_room(*models.cluster);
  const ExpandedGraph expanded =
      models.boxing ? compile_and_report(training, strategy, global_batch, *models.cost,
                                         *models.network, *models.boxing, options)
                    : compile_and_report(training, strategy, global_batch, *models.cost,
                                         *models.network, options);
  const PhysicalGraph& graph = expanded.graph();
  stop();
  const PreparedGraph prepared(ProvenGraph(expanded.shared_graph(), expanded.tables()),
                               *models.cost, *models.network);
  stop();
  Simulation simulation = prepared.first_simulation(*models.cost, *models.network, {});
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.step_time = simulation.step_time;
  // What it cannot do without; spare memory that it spends is there for the taking.
  const std::vector<Bytes> tight = expanded.tight_arenas();
  candidate.peak_memory = *std::max_element(tight.begin(), tight.end());
  candidate.needed_memory = candidate.most_needed = candidate.peak_memory;
  if (models.cluster != nullptr) {
    DeviceMemory memory = device_memory(graph, tight, *models.cluster);
    candidate.needed_memory = memory.needed();
    candidate.most_needed = most_needed(graph, tight, *models.cluster, memory);
    candidate.capacity = memory.capacity;
    candidate.libraries = std::move(memory.libraries);
  }
  candidate.parts = simulation.parts;
  candidate.memory_by_class = std::move(simulation.peak_memory_by_class);
  return candidate;
}

}  // namespace sextant
