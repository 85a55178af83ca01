// Rings over point-to-point cables, as NCCL looks for them on machines without a switch.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

using LaneCounts = std::vector<std::vector<std::int32_t>>;  // [end][end], symmetric
LaneCounts lanes_of(std::int64_t ends, const std::vector<Cable>& cables);

// Directed rings through all members (at least two) at once, such that no lane is in two rings of
// one direction: twice the undirected rings without a common lane; of two members, the lanes
// between them. The most there are, found by search; beyond a million tries the most found so far.
std::int32_t num_cable_rings(const LaneCounts& lanes, std::span<const std::int32_t> members);

}  // namespace sextant
