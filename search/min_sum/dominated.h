// Labels that never beat another label of their variable, whatever the neighbours take, leave the
// problem (dead-end elimination; Goldstein 1994). Exact: some least assignment has none of them.
#pragma once

#include "search/min_sum/problem.h"

#include <cstdint>
#include <vector>

namespace sextant {

struct Undominated {
  MinSumProblem problem;  // same variables, fewer labels
  // By variable: the labels that are left, ascending, as they were called.
  std::vector<std::vector<std::int32_t>> kept;

  Labels original(const Labels& labels) const;
};

// `problem` is valid, its costs are finite. Of labels that are as good as each other the first
// stays.
Undominated without_dominated(const MinSumProblem& problem);

}  // namespace sextant
