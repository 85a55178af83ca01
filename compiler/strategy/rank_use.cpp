// Ranks are numbers whose digits are the coordinates of the axes, the innermost counting ones.
#include "compiler/strategy/rank_use.h"

#include "core/tensors/placement.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

namespace sextant {
namespace {

AxisReach reach_of(RankAxis axis, std::int64_t step, std::int64_t members, std::int64_t ranks,
                   const Cluster& cluster) {
  AxisReach reach{.axis = axis, .members = members, .groups = ranks / members};
  for (std::int64_t first = 0; first < ranks; ++first) {
    if (first / step % members != 0) continue;  // not the first of its group
    std::set<std::int64_t> nodes;
    for (std::int64_t member = 0; member < members; ++member)
      nodes.insert((first + member * step) / cluster.devices_per_node);
    const auto count = static_cast<std::int64_t>(nodes.size());
    if (count > 1) ++reach.crossing;
    reach.most_nodes = std::max(reach.most_nodes, count);
  }
  return reach;
}

}  // namespace

RankUse rank_use(const Strategy& strategy, const Cluster& cluster) {
  RankUse use;
  use.devices = cluster.num_devices();
  const std::int64_t ranks = strategy.ranks();
  for (std::int64_t rank = ranks; rank < use.devices; ++rank)
    use.idle.push_back(Rank(static_cast<int>(rank)));
  std::int64_t step = 1;
  for (const RankAxis axis : strategy.order) {
    const std::int64_t members = extent_of(strategy, axis);
    if (members > 1) use.axes.push_back(reach_of(axis, step, members, ranks, cluster));
    step *= members;
  }
  return use;
}

std::string idle_text(const RankUse& use) {
  if (use.idle.empty()) return "";
  return fmt::format("{} of {} devices {} idle: {}", use.idle.size(), use.devices,
                     use.idle.size() == 1 ? "is" : "are", device_list(use.idle));
}

std::vector<std::string> crossing_texts(const RankUse& use) {
  std::vector<std::string> texts;
  for (const AxisReach& axis : use.axes)
    if (axis.crossing > 0)
      texts.push_back(fmt::format("{} crosses nodes: {} of {} groups of {}, over {} nodes at most",
                                  to_string(axis.axis), axis.crossing, axis.groups, axis.members,
                                  axis.most_nodes));
  return texts;
}

}  // namespace sextant
