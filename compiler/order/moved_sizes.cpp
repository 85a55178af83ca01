// A key of all that sizes depend on, positions instead of ranks.
#include "compiler/order/moved_sizes.h"

#include "core/base/at.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

void append_words(std::vector<std::int64_t>& key, const NdSbp& words) {
  for (const Sbp& word : words)
    key.push_back(static_cast<std::int64_t>(word.kind) << 24U | std::int64_t{word.dim} << 16U |
                  static_cast<std::int64_t>(word.reduce) << 8U | word.nesting);
}

void append_extents(std::vector<std::int64_t>& key, const Placement& placement) {
  key.push_back(static_cast<std::int64_t>(placement.axes.size()));
  for (const MeshAxis& axis : placement.axes) key.push_back(axis.extent);
}

}  // namespace

MovedSizes::Positions::Positions(const Placement& placement) {
  if (placement.ranks.empty()) return;
  const auto [least, most] = std::minmax_element(placement.ranks.begin(), placement.ranks.end());
  first = least->value;
  positions.assign(at(most->value - first) + 1, kOutside);
  for (std::size_t i = 0; i < placement.ranks.size(); ++i)
    at(positions, placement.ranks[i].value - first) = static_cast<std::int32_t>(i);
}

std::int64_t MovedSizes::Positions::of(Rank rank) const {
  const std::int64_t place = std::int64_t{rank.value} - first;
  if (place < 0 || place >= static_cast<std::int64_t>(positions.size())) return kOutside;
  return positions[at(place)];
}

const MovedSizes::Positions& MovedSizes::positions_in(const Placement& placement) {
  return positions_.try_emplace(&placement, placement).first->second;
}

bool MovedSizes::is_disjoint(const Placement& from, const Placement& to) {
  const auto known = disjoint_.find({&from, &to});
  if (known != disjoint_.end()) return known->second;
  const Positions& positions = positions_in(from);
  const bool disjoint = std::none_of(to.ranks.begin(), to.ranks.end(),
                                     [&](Rank rank) { return positions.of(rank) >= 0; });
  return disjoint_[{&from, &to}] = disjoint;
}

// Those that are no exchange are worked out from one box; where placements share some devices, it
// matters which.
CollectiveCost MovedSizes::cost(const Communication& communication, const Shape& global,
                                WordsOnPlacement from, WordsOnPlacement to,
                                std::span<const Rank> members) {
  const bool moves = communication.primitive == Primitive::kAllToAll ||
                     communication.primitive == Primitive::kTransfer;
  const bool is_one = from.placement == to.placement;
  if (!moves || !(is_one || is_disjoint(*from.placement, *to.placement)))
    return collective_cost(communication, global, from, to, members);
  std::vector<std::int64_t> key = {static_cast<std::int64_t>(communication.primitive),
                                   static_cast<std::int64_t>(communication.dtype), is_one ? 1 : 0,
                                   static_cast<std::int64_t>(global.rank())};
  for (std::size_t dim = 0; dim < global.rank(); ++dim) key.push_back(global[dim]);
  for (const WordsOnPlacement& side : {from, to}) {
    append_extents(key, *side.placement);
    append_words(key, *side.words);
    const Positions& positions = positions_in(*side.placement);
    for (const Rank member : members) key.push_back(positions.of(member));
  }
  const auto known = known_.find(key);
  if (known != known_.end())
    return {.communication = &communication,
            .members = members,
            .global_bytes = known->second.global_bytes,
            .largest_volume = known->second.largest_volume};
  const CollectiveCost cost = collective_cost(communication, global, from, to, members);
  known_.emplace(std::move(key), Sizes{cost.global_bytes, cost.largest_volume});
  return cost;
}

CollectiveCost MovedSizes::cost(const PhysicalGraph& graph, const Communication& communication,
                                std::span<const Rank> members) {
  const Layout& from = graph.layouts[communication.from];
  const Layout& to = graph.layouts[communication.to];
  return cost(communication, from.global.shape, {&from.words, &graph.placements[from.placement]},
              {&to.words, &graph.placements[to.placement]}, members);
}

}  // namespace sextant
