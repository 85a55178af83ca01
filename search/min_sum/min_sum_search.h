// The least assignment of a min-sum problem: labels that others dominate leave, what can be
// eliminated is; over the rest, branch and
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
  bool drop_dominated = true;          // labels first (dominated.h)
  // Of the assignment that is wanted: somebody knows one of this cost. Assignments that cost more
  // count as forbidden, which leaves more room for sums and cuts more.
  std::int64_t most_cost = kForbiddenCost;
  std::function<bool()> stop = {};  // polled at every branch and sweep; true ends the search
};

struct MinSumSolution {
  std::optional<Labels> labels;  // nothing: every assignment is forbidden, or stopped before one
  std::int64_t cost = kForbiddenCost;
  std::int64_t lower_bound = 0;  // proven; kForbiddenCost: there is no assignment
  std::int64_t branches = 0;     // 0: elimination did it alone
  bool is_proven() const { return lower_bound == cost; }
};

// Throws what validate() throws, and Error(kUsage) where costs leave no room for what is forbidden:
// about 2^61 over the number of tables. Of several least assignments the same one every time.
MinSumSolution solve(const MinSumProblem& problem, const MinSumOptions& options = {});

}  // namespace sextant
