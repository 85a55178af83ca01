// The least assignment of a min-sum problem: what can be eliminated is; over the rest, branch and
// bound with the dual bound. At any moment there is a proven bound beside the best that was found.
#pragma once

#include "search/min_sum/problem.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

namespace sextant {

struct MinSumOptions {
  std::size_t most_entries = 1 << 16;  // of a table that elimination may make
  int most_sweeps = 50;                // of a dual bound
  std::function<bool()> stop = {};     // polled at every branch; true ends the search
};

struct MinSumSolution {
  std::optional<Labels> labels;  // nothing: every assignment is forbidden, or stopped before one
  std::int64_t cost = kForbiddenCost;
  std::int64_t lower_bound = 0;  // proven; kForbiddenCost: there is no assignment
  std::int64_t branches = 0;     // 0: elimination did it alone
  bool is_proven() const { return lower_bound == cost; }
};

// Throws what validate() throws. Of several least assignments the same one every time.
MinSumSolution solve(const MinSumProblem& problem, const MinSumOptions& options = {});

}  // namespace sextant
