// Groups of a step with the sizes that network models want, without listing single boxes. Equal to
// core/communication_volume.h where that lists them. Internal to sbp/.
#pragma once

#include "core/placement.h"
#include "core/shape.h"
#include "core/units.h"
#include "sbp/boxing.h"

#include <cstdint>
#include <vector>

namespace sextant {

struct GroupCost {
  std::vector<Rank> members;
  // As in CollectiveCost.
  Bytes global_bytes, largest_volume;
};

// Of an all_to_all over all axes among replicas, who sends what takes listing boxes. kReceived
// leaves that out: volumes are then those that members receive, never more than the exact ones.
enum class Volumes : std::uint8_t { kExact, kReceived };

std::vector<GroupCost> group_costs(const BoxingStep& step, const TensorType& type,
                                   const Placement& from, const Placement& to,
                                   Volumes volumes = Volumes::kExact);
// True where kReceived saves work.
bool lists_boxes(const BoxingStep& step);

}  // namespace sextant
