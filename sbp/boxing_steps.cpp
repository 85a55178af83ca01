// What one step of boxing is: its groups, its exact volume and its text. README, "Volumes".
#include "core/base/check.h"
#include "core/costs/communication_volume.h"
#include "sbp/boxing.h"
#include "sbp/device_times.h"
#include "sbp/group_costs.h"

#include <utility>

namespace sextant {
namespace {

std::string axes_text(const std::vector<std::size_t>& axes, const Placement* placement) {
  std::string text;
  for (const std::size_t axis : axes)
    text += (text.empty() ? "" : ", ") +
            (placement != nullptr ? placement->axes[axis].name : fmt::format("axis {}", axis));
  return text;
}

std::string step_text(const BoxingStep& step, const Placement* placement) {
  const std::string change = fmt::format("{} -> {}", to_string(step.from), to_string(step.to));
  switch (step.kind) {
    case BoxingKind::kLocal:
      return (step.where == BoxingWhere::kBetween ? "relabel: " : "local: ") + change;
    case BoxingKind::kTransfer:
      return "transfer: " + change;
    case BoxingKind::kCast:
      return fmt::format("cast: {} -> {}", to_string(step.dtype), to_string(step.to_dtype));
    case BoxingKind::kCollective:
      break;
  }
  return fmt::format("{} over {}: {}", to_string(step.primitive),
                     axes_text(step.group_axes, placement), change);
}

}  // namespace

std::vector<PairBytes> reference_volume(const BoxingStep& step, const TensorType& type,
                                        const Placement& from_placement,
                                        const Placement& to_placement) {
  Communication communication;
  communication.primitive = step.primitive;
  communication.reduce = step.reduce;
  communication.dtype = type.dtype;
  const bool within = step.kind == BoxingKind::kCollective;
  const Placement& placement = placement_of(step, from_placement, to_placement);
  Traffic traffic;
  if (within || step.kind == BoxingKind::kTransfer)
    for (const auto& members : groups_of(step, type, from_placement, to_placement))
      add_traffic(communication, type.shape, {&step.from, within ? &placement : &from_placement},
                  {&step.to, within ? &placement : &to_placement}, members, traffic);
  return pairs_of(traffic);
}

std::vector<std::vector<Rank>> groups_of(const BoxingStep& step, const TensorType& type,
                                         const Placement& from_placement,
                                         const Placement& to_placement) {
  std::vector<std::vector<Rank>> groups;
  WorkBudget work;
  try {
    for (GroupCost& group : group_costs(step, type, from_placement, to_placement, &work))
      groups.push_back(std::move(group.members));
  } catch (const OutOfWork&) {
    fail(ErrorCode::kInfeasible,
         "{} of {}: more than 2^22 pairs of devices send to each other, too many to list",
         to_string(step, placement_of(step, from_placement, to_placement)), to_string(type.shape));
  }
  return groups;
}

Duration device_time(const BoxingStep& step, const TensorType& type,
                     const Placement& from_placement, const Placement& to_placement,
                     const CostModel& cost) {
  if (is_communication(step.kind) || step.where == BoxingWhere::kBetween) return {};
  const Placement& on = placement_of(step, from_placement, to_placement);
  const std::vector<std::int64_t> extents = on.hierarchy();
  const auto part = [&](const NdSbp& words) {
    return largest_part(type.shape, extents, MeshState(words, extents, type.shape));
  };
  const DeviceTimes times(&cost, on);
  return step.kind == BoxingKind::kCast ? times.cast(part(step.from), step.dtype, step.to_dtype)
                                        : times.local(part(step.from), part(step.to), step.dtype);
}

std::string to_string(const BoxingStep& step) { return step_text(step, nullptr); }
std::string to_string(const BoxingStep& step, const Placement& placement) {
  return step_text(step, &placement);
}

}  // namespace sextant
