// A lower bound of a min-sum problem of any width, from its dual: tables hand parts of their costs
// to the variables that they are over, as fairly as they can, and what stays is minimised one by
// one (max-product linear programming; Globerson and Jaakkola 2007). In integers, so it is exact:
// what is handed over is taken away.
#pragma once

#include "search/min_sum/problem.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace sextant {

struct DualBound {
  std::int64_t bound = 0;
  // By variable and label: the costs that ended up with it. The least is a good guess.
  std::vector<std::vector<std::int64_t>> beliefs;
};

// `problem` is valid, its costs are finite. Ends after `most_sweeps` over all tables, when one
// raises the bound by less than a thousandth, or when `stop`, polled before each, says so.
DualBound dual_bound(const MinSumProblem& problem, int most_sweeps,
                     const std::function<bool()>& stop = {});

}  // namespace sextant
