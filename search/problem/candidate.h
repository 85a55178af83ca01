// What a search is given, and one strategy of it compiled and simulated.
#pragma once

#include "compiler/strategy/strategy.h"
#include "compiler/words/stage.h"
#include "core/base/stop_poll.h"
#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "simulator/costs/library_memory.h"
#include "simulator/modes/simulate.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sextant {

struct ExpandOptions;  // compiler/expand/expand.h

// What is searched over; `training_graph(strategy)` builds the graph of one micro-batch: dp x
// micro_batch samples. Strategies of equal training_graph_key get equal graphs.
struct SearchProblem {
  std::function<LogicalGraph(const Strategy&)> training_graph;
  // The same of a model with so many blocks between its first and its last layer, where there is
  // one that differs in nothing else: what its layers take bounds plans of the whole. Optional.
  std::function<LogicalGraph(const Strategy&, int blocks)> shorter_graph = {};
  std::int64_t global_batch = 1;
  const Cluster* cluster = nullptr;
  DType compute_dtype = DType::kBF16;
  // Of every strategy (compiler/strategy/strategy.h); those that the search chooses stand in front.
  std::vector<WordPin> pins = {};
};

// The models that a search uses for its cluster.
struct SearchModels {
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
  const Cluster* cluster = nullptr;  // whose libraries take memory beside plans
  // Boxing plans that all strategies share; without it each makes its own. Not for several threads.
  std::shared_ptr<BoxingTables> boxing = {};
};
SearchModels make_search_models(const SearchProblem& problem);

struct Candidate {
  Strategy strategy;
  Duration step_time;
  Bytes peak_memory;                  // the largest arena
  Bytes needed_memory;                // arena and libraries, on the device with least room
  Bytes most_needed;                  // arena and libraries, on the device that needs most
  Bytes capacity;                     // of that device
  std::vector<LibraryUse> libraries;  // on that device
  StepParts parts;
  std::vector<Bytes> memory_by_class;  // kNumMemoryClasses entries, of the worst device
  Duration lower_bound;                // what was known before it was compiled
};

// One strategy, compiled and simulated, whatever memory it takes. Throws what the compiler throws.
Candidate evaluate_strategy(const LogicalGraph& training, const Strategy& strategy,
                            std::int64_t global_batch, const SearchModels& models,
                            const StopPoll& stop = StopPoll());
// The same with other options of the compiler: schedule, memory and proof stay the function's own.
Candidate evaluate_strategy(const LogicalGraph& training, const Strategy& strategy,
                            std::int64_t global_batch, const SearchModels& models,
                            const ExpandOptions& given, const StopPoll& stop = StopPoll());

}  // namespace sextant
