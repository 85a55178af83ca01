// Sizes are worked out once per program and role, then asked for by group.

#include "simulator/links/group_communications.h"

#include <algorithm>

namespace sextant {

GroupCommunications::GroupCommunications(const PhysicalGraph& graph, const GroupMembers& members)
    : graph_(graph), members_(members) {
  for (const RankProgram& program : graph.programs) by_program_.push_back(by_role(graph, program));
}

GroupCommunications::ByRole GroupCommunications::by_role(const PhysicalGraph& graph,
                                                         const RankProgram& program) {
  ByRole by_role(static_cast<std::size_t>(program.num_group_roles));
  std::vector<bool> seen(graph.blocks.size());
  for (const Instance& instance : program.instances) {
    if (seen[instance.block.index()]) continue;
    seen[instance.block.index()] = true;
    for (const Actor& actor : graph.block_of(instance).actors) {
      if (!actor.communication) continue;
      auto& list = by_role[static_cast<std::size_t>(actor.communication->group)];
      const bool known = std::any_of(list.begin(), list.end(), [&](const Issued& other) {
        return *other.communication == *actor.communication;
      });
      if (!known)
        list.push_back({&*actor.communication, CollectiveSizes(graph, *actor.communication)});
    }
  }
  return by_role;
}

std::vector<CollectiveCost> GroupCommunications::of(GroupId group) const {
  std::vector<CollectiveCost> costs;
  const auto of_group = members_.of(group);
  if (of_group.empty()) return costs;
  // Any member will do: all issue the same (actor invariant 8).
  const GroupMember& first = of_group.front();
  const ByRole& issued = by_program_[graph_.ranks[first.rank].program.index()];
  for (const Issued& one : issued[static_cast<std::size_t>(first.role)])
    costs.push_back(one.sizes.of(graph_.groups[group].ranks));
  return costs;
}

}  // namespace sextant
