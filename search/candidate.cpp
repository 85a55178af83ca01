// One strategy: compiled, simulated, with what it needs of its devices.

#include "compiler/expand.h"
#include "search/search.h"
#include "simulator/models.h"

#include <utility>

namespace sextant {

SearchModels make_search_models(const SearchProblem& problem) {
  TimingModels models = make_timing_models(*problem.cluster, problem.compute_dtype);
  const auto boxing = std::make_shared<BoxingTables>(models.network.get(), models.cost.get());
  return {std::move(models.cost), std::move(models.network), problem.cluster, boxing};
}

Candidate evaluate_strategy(const LogicalGraph& training, const Strategy& strategy,
                            std::int64_t global_batch, const SearchModels& models) {
  ExpandOptions options;
  options.schedule = strategy.schedule;
  options.checks = false;
  const PhysicalGraph graph =
      models.boxing
          ? compile(training, strategy, global_batch, *models.cost, *models.network, *models.boxing,
                    options)
          : compile(training, strategy, global_batch, *models.cost, *models.network, options);
  Simulation simulation = simulate(graph, *models.cost, *models.network);
  Candidate candidate;
  candidate.strategy = strategy;
  candidate.step_time = simulation.step_time;
  candidate.peak_memory = simulation.peak_memory;
  candidate.needed_memory = candidate.peak_memory;
  if (models.cluster != nullptr) {
    DeviceMemory memory = device_memory(graph, *models.cluster);
    candidate.needed_memory = memory.needed();
    candidate.capacity = memory.capacity;
    candidate.libraries = std::move(memory.libraries);
  }
  candidate.parts = simulation.parts;
  candidate.memory_by_class = std::move(simulation.peak_memory_by_class);
  return candidate;
}

}  // namespace sextant
