// What one step of boxing is: its groups, its exact volume and its text. README, "Volumes".
#include "core/check.h"
#include "core/communication_volume.h"
#include "sbp/boxing.h"
#include "sbp/group_costs.h"
#include "sbp/mesh_state.h"

#include <algorithm>
#include <map>
#include <utility>

namespace sextant {
namespace {

using PairCounts = std::map<std::pair<Rank, Rank>, std::int64_t>;  // elements

std::int64_t elements_of(std::span<const Interval> box) {
  std::int64_t elements = 1;
  for (const Interval& dim : box) elements *= dim.extent;
  return elements;
}

std::vector<Interval> whole(const Shape& shape) {
  std::vector<Interval> box;
  for (const std::int64_t extent : shape.extents()) box.push_back({.offset = 0, .extent = extent});
  return box;
}

// Boxes of the devices of one placement under one state.
class Boxes {
 public:
  Boxes(const NdSbp& words, const Placement& placement, const Shape& shape)
      : placement_(placement),
        hierarchy_(placement.hierarchy()),
        cuts_(MeshState(words, hierarchy_, shape), hierarchy_),
        whole_(whole(shape)) {}

  std::vector<Interval> at(std::size_t index) const {
    std::vector<Interval> box = whole_;
    cuts_.narrow(box, placement_.coordinates_of(index));
    return box;
  }
  std::int64_t elements(std::size_t index) const { return elements_of(at(index)); }

 private:
  const Placement& placement_;
  std::vector<std::int64_t> hierarchy_;
  Cuts cuts_;
  std::vector<Interval> whole_;
};

// Positions in the placement that differ only in the group axes; see the header for the order.
std::vector<std::vector<std::size_t>> positions_by_group(const Placement& placement,
                                                         const std::vector<std::size_t>& axes) {
  std::map<std::vector<std::int64_t>, std::vector<std::size_t>> groups;
  for (std::size_t index = 0; index < placement.ranks.size(); ++index) {
    std::vector<std::int64_t> key = placement.coordinates_of(index);
    for (const std::size_t axis : axes) key[axis] = 0;
    groups[key].push_back(index);
  }
  std::vector<std::vector<std::size_t>> result;
  for (auto& [key, members] : groups) result.push_back(std::move(members));
  return result;
}

// Adds what each member of a ring sends to the next: everything but the chunk that
// `kept_by(member)` names.
template <typename Kept>
void add_ring(const Placement& placement, const std::vector<std::size_t>& members, std::int64_t all,
              const Kept& kept_by, PairCounts& counts) {
  for (std::size_t member = 0; member < members.size(); ++member) {
    const std::size_t after = (member + 1) % members.size();
    counts[{placement.ranks[members[member]], placement.ranks[members[after]]}] +=
        all - kept_by(member, after);
  }
}

void add_group(const BoxingStep& step, const Shape& shape, const Placement& placement,
               const std::vector<std::size_t>& members, PairCounts& counts) {
  const Boxes from(step.from, placement, shape), to(step.to, placement, shape);
  const auto n = static_cast<std::int64_t>(members.size());
  switch (step.primitive) {
    case Primitive::kReduceScatter:
      return add_ring(
          placement, members, from.elements(members.front()),
          [&](std::size_t member, std::size_t) { return to.elements(members[member]); }, counts);
    case Primitive::kAllGather:
      return add_ring(
          placement, members, to.elements(members.front()),
          [&](std::size_t, std::size_t after) { return from.elements(members[after]); }, counts);
    case Primitive::kAllReduce: {
      const std::int64_t all = from.elements(members.front());
      const auto chunk = [&](std::size_t member) {
        return balanced_part(all, n, static_cast<std::int64_t>(member)).extent;
      };
      return add_ring(
          placement, members, 2 * all,
          [&](std::size_t member, std::size_t after) { return chunk(member) + chunk(after); },
          counts);
    }
    case Primitive::kAllToAll:
    case Primitive::kBroadcast:
    case Primitive::kTransfer:
      fail(ErrorCode::kInternal, "{} is no ring", to_string(step.primitive));
  }
}

void add_moves(const BoxingStep& step, const Shape& shape, const Placement& from,
               const Placement& to, const std::vector<Rank>& members, PairCounts& counts) {
  for (const BoxMove& move : box_moves(shape, {&step.from, &from}, {&step.to, &to}, members)) {
    if (move.source == move.destination) continue;
    counts[{members[static_cast<std::size_t>(move.source)],
            members[static_cast<std::size_t>(move.destination)]}] += elements_of(move.box.dims);
  }
}

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
      return "local: " + change;
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
  PairCounts counts;
  if (step.kind != BoxingKind::kLocal) {
    const bool ring =
        step.kind == BoxingKind::kCollective && step.primitive != Primitive::kAllToAll;
    if (ring)
      for (const auto& members : positions_by_group(from_placement, step.group_axes)) {
        if (members.size() > 1) add_group(step, type.shape, from_placement, members, counts);
      }
    else
      for (const auto& members : groups_of(step, type, from_placement, to_placement))
        add_moves(step, type.shape, from_placement, to_placement, members, counts);
  }
  std::vector<PairBytes> volume;
  for (const auto& [pair, elements] : counts)
    if (elements > 0) volume.push_back({pair.first, pair.second, size_of(type.dtype) * elements});
  return volume;
}

std::vector<std::vector<Rank>> groups_of(const BoxingStep& step, const TensorType& type,
                                         const Placement& from_placement,
                                         const Placement& to_placement) {
  std::vector<std::vector<Rank>> groups;
  for (GroupCost& group : group_costs(step, type, from_placement, to_placement))
    groups.push_back(std::move(group.members));
  return groups;
}

std::string to_string(const BoxingStep& step) { return step_text(step, nullptr); }
std::string to_string(const BoxingStep& step, const Placement& placement) {
  return step_text(step, &placement);
}

}  // namespace sextant
