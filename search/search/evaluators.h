// Who compiles strategies ahead for a search: elsewhere, while the search itself goes on. What a
// strategy takes is the same wherever it is compiled, so nothing of the result changes.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/base/stop_poll.h"
#include "search/problem/candidate.h"
#include "search/problem/evaluation.h"
#include "search/problem/recent_graphs.h"
#include "search/search/search.h"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>

namespace sextant {

class Evaluators {
 public:
  virtual ~Evaluators() = default;
  // How many strategies are worth guessing.
  virtual std::size_t wanted() const = 0;
  // What the search may compile next, the likeliest first; earlier guesses that nobody has begun
  // are dropped.
  virtual void expect(std::span<const Strategy> next) = 0;
  // What somebody has found, or is finding out, of a strategy: waits for that. Nothing: nobody has
  // begun. Throws CompileStopped where `stop` says so.
  virtual std::optional<Evaluation> take(const Strategy& strategy, const StopPoll& stop) = 0;
};

// Compiles strategies as a search of this problem does. For one thread.
class StrategyEvaluator {
 public:
  StrategyEvaluator(const SearchProblem& problem, const SearchLimits& limits);
  // Throws CompileStopped, and errors that are no refusals.
  Evaluation evaluate(const Strategy& strategy, const StopPoll& stop);

 private:
  const SearchProblem& problem_;
  const Cluster cluster_;
  SearchModels models_;
  RecentGraphs graphs_;
};

}  // namespace sextant
