// What the user asked for against what there is: the cluster with the memory that plans may take,
// and why no strategy meets the conditions.
#pragma once

#include "core/base/units.h"
#include "core/costs/cluster.h"
#include "search/space/space.h"

#include <cstdint>
#include <optional>

namespace sextant {

// Devices with at most `memory` each. Throws Error(kUsage) where none has as much.
Cluster limited(const Cluster& cluster, const std::optional<Bytes>& memory);

// Throws Error(kInfeasible) for a space that is empty without conditions; Error(kUsage) naming the
// condition that no strategy of it meets alone, with the values that its setting can have, or all
// of them where only together they leave none.
[[noreturn]] void refuse_empty_space(std::int64_t num_devices, std::int64_t global_batch,
                                     const ModelFacts& facts, const StrategyFilter& filter);

}  // namespace sextant
