// Enumerates strategies, keeps what fits in memory, simulates each, ranks.
#pragma once

#include "compiler/strategy.h"
#include "core/cluster.h"
#include "core/logical_graph.h"
#include "simulator/simulate.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct SearchLimits {
  std::optional<Bytes> memory;     // per device; default: the device's
  std::vector<std::string> fixed;  // "tp=4": only strategies with this value
  std::function<bool()> stop;      // polled; true ends the search with what is there
  std::function<void(const std::string&)> progress;
};

struct Candidate {
  Strategy strategy;
  Duration step_time;
  Bytes peak_memory;
  StepParts parts;
};

struct Rejection {
  Strategy strategy;
  std::string reason;  // "memory: 93.1 GiB of 80.0 GiB", "heads 12 not divisible by tp 8"
};

struct SearchResult {
  std::vector<Candidate> plans;  // best first; ties by text of the strategy
  std::vector<Rejection> rejected;
  std::int64_t enumerated = 0, cut_by_memory = 0, cut_by_bound = 0, simulated = 0;
  Duration lower_bound;  // no strategy of the space is faster
  bool complete = true;  // false when stopped early
};

// What is searched over; `training_graph(samples)` builds the graph of one micro-batch of that many
// samples over all replicas.
struct SearchProblem {
  std::function<LogicalGraph(std::int64_t samples)> training_graph;
  std::int64_t global_batch = 1;
  const Cluster* cluster = nullptr;
  DType compute_dtype = DType::kBF16;
  double model_flops_per_step = 0;  // for the bound: no strategy computes less
};

SearchResult search(const SearchProblem& problem, const SearchLimits& limits = {});

}  // namespace sextant
