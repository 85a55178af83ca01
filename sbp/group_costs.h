// Groups of a step with the sizes that network models want, without listing single boxes. Equal to
// core/communication_volume.h where that lists them. Internal to sbp/.
#pragma once

#include "core/placement.h"
#include "core/shape.h"
#include "core/units.h"
#include "sbp/boxing.h"

#include <vector>

namespace sextant {

struct GroupCost {
  std::vector<Rank> members;
  // As in CollectiveCost.
  Bytes global_bytes, largest_volume;
};

std::vector<GroupCost> group_costs(const BoxingStep& step, const TensorType& type,
                                   const Placement& from, const Placement& to);

}  // namespace sextant
