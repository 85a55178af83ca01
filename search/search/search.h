// Walks the tree of strategies, keeps what fits in memory, simulates what may win, ranks.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/base/units.h"
#include "search/problem/candidate.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

class Evaluators;

struct SearchLimits {
  std::optional<Bytes> memory;         // per device; default: the device's, which is the most
  std::vector<std::string> fixed;      // "tp=4": only strategies with this value
  std::vector<std::string> forbidden;  // "zero=3": only strategies with another one
  // Polled, within compiles too, where it may be another thread that asks, one at a time; true ends
  // the search with what is there.
  std::function<bool()> stop;
  // Plans in a row that are compiled without a new best; then the search ends with what is there.
  std::optional<std::int64_t> patience;
  // Of the best plan; when it is reached, the search ends with what is there.
  double enough_gap = 0;
  // As many plans have been simulated before `enough_gap` ends the search: who compares plans wants
  // two.
  std::int64_t least_plans = 1;
  std::function<void(const std::string&)> progress;
  std::function<void(const Candidate&)> improved;  // a new best plan, as it is found
  // Looks for the plans that no other one beats in time and memory (search/search/pareto.h). A
  // strategy is cut by the bound only when a plan is within its bounds of time *and* memory;
  // patience counts the plans in a row that no such plan came of, and `enough_gap` does not end the
  // search.
  bool pareto = false;
  // False simulates everything that fits in memory, bounds or not: the reference for tests, and a
  // full table for people.
  bool use_bounds = true;
  // Compile ahead (search/search/evaluators.h); nullptr: nobody does.
  Evaluators* evaluators = nullptr;
};

// Why strategies are no plans: one per kind, whatever their number.
struct Rejection {
  enum class Kind : std::uint8_t {
    kMemoryBound,  // cannot fit: never compiled
    kMemoryPlan,   // compiled, and does not fit
    kRefused,      // the model cannot be split like this
  };
  Kind kind = Kind::kRefused;
  std::string what;        // of refusals, without the numbers: equal ones are one kind
  std::int64_t count = 0;  // strategies
  Strategy example;        // of memory: the closest miss
  std::string reason;  // "memory: 93.1 GiB of 80.0 GiB (libraries 788 MiB: ...)", "heads 12 ..."
};

struct ClosestMiss {
  Strategy strategy;
  Bytes needed, capacity;
};

// Every strategy of the space has one fate: simulated + cut_by_memory + cut_by_bound + refused +
// open = counted.
struct SearchResult {
  std::vector<Candidate> plans;       // best first; ties by text of the strategy
  std::vector<Candidate> misses;      // compiled, and too large; as they came
  std::vector<Rejection> rejections;  // by kind
  std::int64_t counted = 0;           // strategies of the space that the conditions leave
  std::int64_t simulated = 0;         // plans
  std::int64_t cut_by_memory = 0;     // by the bound before, or by the plan after compiling
  std::int64_t cut_by_bound = 0;      // cannot beat what there is, so never compiled
  std::int64_t refused = 0;           // the model cannot be split like this
  std::int64_t open = 0;              // the search ended before them
  std::int64_t compiled = 0;          // plans, those that do not fit among them
  // No strategy of the space is faster: the least bound of what is open, at most the best step.
  Duration lower_bound;
  std::vector<std::string> constraints;  // what the space is, and what is outside
  std::optional<ClosestMiss> closest;    // compiled; where there is no plan
  std::optional<Bytes> least_memory;     // no strategy does with less; where there is no plan

  bool complete() const { return open == 0; }
  // (best - lower bound) / best; of a search without a plan 1.
  double gap() const;
};

// Throws Error(kUsage) naming the condition that no strategy meets, and for more memory than the
// devices have; Error(kInfeasible) when the space is empty without conditions. No plan at all is
// not an error: `rejections` says why.
SearchResult search(const SearchProblem& problem, const SearchLimits& limits = {});

}  // namespace sextant
