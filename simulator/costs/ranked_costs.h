// Compute times that differ from rank to rank: other device kinds in the cluster, and stragglers.
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"

#include <memory>
#include <span>
#include <string_view>

namespace sextant {

// A rank whose kernels take `factor` times as long.
struct Straggler {
  Rank rank;
  double factor = 1;
};

// "5=1.2x" or "5=+20%". Throws Error(kUsage) for text that names no rank or no factor above zero.
Straggler parse_straggler(std::string_view text);

// Each rank's kernels by the model of its device (make_cost_model), times its factor; several
// factors of one rank multiply. Kernels without a rank and launches are those of the cluster's
// first device kind; a fused kind needs one kernel on every device. Throws Error(kUsage) for a
// rank that the cluster does not have.
std::unique_ptr<CostModel> make_ranked_costs(const Cluster& cluster, DType compute_dtype,
                                             std::span<const Straggler> stragglers = {});

}  // namespace sextant
