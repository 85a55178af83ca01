// Groups of a step with the sizes that network models want. Equal to
// core/costs/communication_volume.h, which lists boxes. Internal to sbp/.
#pragma once

#include "core/base/units.h"
#include "core/tensors/mesh_boxes.h"
#include "core/tensors/placement.h"
#include "core/tensors/shape.h"
#include "sbp/boxing.h"
#include "sbp/work_budget.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

// In units of WorkBudget: one box that goes from one device to another.
constexpr std::int64_t kVisitWork = 64;

struct GroupCost {
  std::vector<Rank> members;
  // As in CollectiveCost.
  Bytes global_bytes, largest_volume;
};

// The placement that a step inside one placement uses.
const Placement& placement_of(const BoxingStep& step, const Placement& from, const Placement& to);

// Devices of a placement that differ in `axes` (a bit set) only, group after group: `members` of
// each, in group order; the groups by the coordinates of the other axes.
struct AxisGroups {
  std::vector<std::uint32_t> devices;  // numbers in the placement
  std::vector<Rank> ranks;
  std::size_t members = 1;
  std::size_t size() const { return devices.size() / members; }
};
AxisGroups groups_along(std::uint32_t axes, const Placement& placement);

// Of a transfer between words of the two placements.
std::vector<GroupCost> transfer_costs(const MeshBoxes& from, const Placement& source,
                                      const MeshBoxes& to, const Placement& target,
                                      const CommonDevices& common, Bytes element,
                                      WorkBudget* work = nullptr);

// The sum of the above where no device is on both sides, without a look at who sends: every device
// of the target gets all that it wants of every share that its own takes. Nothing where some are.
std::optional<Bytes> bytes_across(const BoxingStep& step, const TensorType& type,
                                  const Placement& from, const Placement& to);

// Empty for steps that do not communicate.
std::vector<GroupCost> group_costs(const BoxingStep& step, const TensorType& type,
                                   const Placement& from, const Placement& to,
                                   WorkBudget* work = nullptr);

}  // namespace sextant
