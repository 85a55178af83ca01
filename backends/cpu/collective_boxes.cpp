// Boxes follow from the words on both sides.
#include "backends/cpu/collective_boxes.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {

Shard flat_part(std::int64_t offset, std::int64_t extent) {
  Shard box;
  box.dims.push_back({.offset = offset, .extent = extent});
  return box;
}

CollectiveBoxes::CollectiveBoxes(const PhysicalGraph& graph, const Communication& communication,
                                 std::span<const Rank> ranks)
    : graph_(graph),
      communication_(communication),
      ranks_(ranks),
      from_(graph.layouts[communication.from]),
      to_(graph.layouts[communication.to]) {
  for (const Rank rank : ranks) {
    in_boxes_.push_back(held_box(graph, from_, rank));
    out_boxes_.push_back(held_box(graph, to_, rank));
  }
}

std::int64_t CollectiveBoxes::scratch_elements(std::int64_t most_at_once) const {
  const auto sum = [](const std::vector<Shard>& boxes) {
    std::int64_t elements = 0;
    for (const Shard& box : boxes) elements += box.elements();
    return elements;
  };
  switch (communication_.primitive) {
    case Primitive::kAllReduce:
      return longest_piece(most_at_once) * static_cast<std::int64_t>(size());
    case Primitive::kAllGather:
    case Primitive::kBroadcast:
      return 0;
    case Primitive::kShift:
      return sum(in_boxes_);
    case Primitive::kReduceScatter:
    case Primitive::kAllToAll:
    case Primitive::kTransfer:
      return sum(out_boxes_);
  }
  return 0;
}

std::int64_t CollectiveBoxes::spread_elements(const MemberHomes& homes,
                                              std::int64_t most_at_once) const {
  std::int64_t foreign = 0, longest = 0;
  const auto look_at = [&](const std::vector<Shard>& boxes) {
    for (const Shard& box : boxes) longest = std::max(longest, box.elements());
  };
  switch (communication_.primitive) {
    case Primitive::kAllReduce:
      longest = longest_piece(most_at_once);
      break;
    case Primitive::kAllGather:
      for (std::size_t member = 0; member < size(); ++member)
        if (homes.of[member] != homes.here) foreign += in_boxes_[member].elements();
      look_at(in_boxes_);
      break;
    case Primitive::kBroadcast:
      longest = in_boxes_.front().elements();
      if (homes.of.front() != homes.here) foreign = longest;
      break;
    case Primitive::kShift:
      look_at(in_boxes_);
      break;
    case Primitive::kReduceScatter:
    case Primitive::kAllToAll:
    case Primitive::kTransfer:
      look_at(out_boxes_);
      break;
  }
  return foreign + 2 * longest;
}

void CollectiveBoxes::require_equal_boxes(const std::vector<Shard>& boxes) const {
  require(std::all_of(boxes.begin(), boxes.end(),
                      [&](const Shard& box) { return box == boxes.front(); }),
          ErrorCode::kInternal, "{} over {} -> {}: its members hold different boxes",
          to_string(communication_.primitive), to_string(from_.words), to_string(to_.words));
}

std::int64_t CollectiveBoxes::longest_piece(std::int64_t most_at_once) const {
  const std::int64_t elements = std::min(in_boxes_.front().elements(), most_at_once);
  const auto members = static_cast<std::int64_t>(size());
  return elements / members + (elements % members != 0 ? 1 : 0);
}

}  // namespace sextant
