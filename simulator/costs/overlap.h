// What kernels and communications on one device do to each other.
#pragma once

#include "core/base/ids.h"
#include "core/costs/cluster.h"

#include <vector>

namespace sextant {

// Rates beside each other, as shares of those alone.
struct OverlapShares {
  double compute = 1;        // while a communication is in progress
  double communication = 1;  // while a kernel runs
  auto operator<=>(const OverlapShares&) const = default;
};

// By rank; empty where nobody slows anybody. Throws Error(kBadInput) for a share that is not above
// 0 and at most 1.
std::vector<OverlapShares> overlap_shares(const Cluster& cluster);

}  // namespace sextant
