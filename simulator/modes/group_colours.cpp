// One isolated duration per (group, distinct communication of its role).

#include "simulator/modes/group_colours.h"

#include "simulator/links/group_communications.h"

#include <map>

namespace sextant {

std::vector<std::int32_t> group_colours(const PhysicalGraph& graph, const GroupMembers& members,
                                        const NetworkModel& network) {
  const GroupCommunications issued(graph, members);
  std::map<std::vector<std::int64_t>, std::int32_t> colours;
  std::vector<std::int32_t> result(graph.groups.size());
  for (std::size_t group = 0; group < result.size(); ++group) {
    std::vector<std::int64_t> durations;
    for (const CollectiveCost& cost : issued.of(GroupId(group)))
      durations.push_back(network.duration(cost).value);
    const auto next = static_cast<std::int32_t>(colours.size());
    result[group] = colours.try_emplace(std::move(durations), next).first->second;
  }
  return result;
}

}  // namespace sextant
