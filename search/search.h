// Enumerates strategies, keeps what fits in memory, simulates each, ranks.
#pragma once

#include "compiler/strategy.h"
#include "core/cluster.h"
#include "core/cost_model.h"
#include "core/logical_graph.h"
#include "simulator/library_memory.h"
#include "simulator/simulate.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct Candidate {
  Strategy strategy;
  Duration step_time;
  Bytes peak_memory;                  // the largest arena
  Bytes needed_memory;                // arena and libraries, on the device with least room
  std::vector<LibraryUse> libraries;  // on that device
  StepParts parts;
  std::vector<Bytes> memory_by_class;  // kNumMemoryClasses entries, of the worst device
  Duration lower_bound;                // what was known before it was compiled
};

struct SearchLimits {
  std::optional<Bytes> memory;     // per device; default: the device's
  std::vector<std::string> fixed;  // "tp=4": only strategies with this value
  std::function<bool()> stop;      // polled; true ends the search with what is there
  std::function<void(const std::string&)> progress;
  std::function<void(const Candidate&)> improved;  // a new best plan, as it is found
  // False simulates everything that fits in memory, bounds or not: the reference for tests, and a
  // full table for people.
  bool use_bounds = true;
};

struct Rejection {
  Strategy strategy;
  std::string reason;  // "memory: 93.1 GiB of 80.0 GiB (libraries 788 MiB: ...)", "heads 12 not
                       // divisible by tp 8"
};

struct SearchResult {
  std::vector<Candidate> plans;     // best first; ties by text of the strategy
  std::vector<Rejection> rejected;  // in order of enumeration
  std::int64_t enumerated = 0;      // strategies of the space that `fixed` leaves
  std::int64_t cut_by_memory = 0;   // by the bound before, or by the plan after compiling
  std::int64_t cut_by_bound = 0;    // cannot beat the best, so never compiled
  std::int64_t refused = 0;         // the model cannot be split like this
  std::int64_t simulated = 0;
  Duration lower_bound;  // no strategy of the space is faster
  bool complete = true;  // false when stopped early
};

// What is searched over; `training_graph(strategy)` builds the graph of one micro-batch: dp x
// micro_batch samples. Strategies of equal training_graph_key get equal graphs.
struct SearchProblem {
  std::function<LogicalGraph(const Strategy&)> training_graph;
  std::int64_t global_batch = 1;
  const Cluster* cluster = nullptr;
  DType compute_dtype = DType::kBF16;
  double model_flops_per_step = 0;  // for the bound: no strategy computes less
};

// Throws Error(kUsage) for a setting in `fixed` that no strategy has, Error(kInfeasible) when the
// space is empty before the model is looked at. No plan at all is not an error: `rejected` says
// why.
SearchResult search(const SearchProblem& problem, const SearchLimits& limits = {});

// The models that a search uses for its cluster.
struct SearchModels {
  std::unique_ptr<CostModel> cost;
  std::unique_ptr<NetworkModel> network;
  const Cluster* cluster = nullptr;  // whose libraries take memory beside plans
};
SearchModels make_search_models(const SearchProblem& problem);

// One strategy, compiled and simulated, whatever memory it takes. Throws what the compiler throws.
Candidate evaluate_strategy(const LogicalGraph& training, const Strategy& strategy,
                            std::int64_t global_batch, const SearchModels& models);

}  // namespace sextant
