// One isolated duration per (group, distinct communication of its role).

#include "simulator/group_colours.h"

#include "core/communication_volume.h"

#include <algorithm>
#include <map>

namespace sextant {

namespace {

// Distinct communications of a program, by role.
struct Issued {
  const Communication* communication;
  CollectiveSizes sizes;
};
using ByRole = std::vector<std::vector<Issued>>;

ByRole communications_by_role(const PhysicalGraph& graph, const RankProgram& program) {
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

}  // namespace

std::vector<std::int32_t> group_colours(const PhysicalGraph& graph, const GroupMembers& members,
                                        const NetworkModel& network) {
  std::vector<ByRole> by_program;
  for (const RankProgram& program : graph.programs)
    by_program.push_back(communications_by_role(graph, program));
  std::map<std::vector<std::int64_t>, std::int32_t> colours;
  std::vector<std::int32_t> result(graph.groups.size());
  for (std::size_t group = 0; group < result.size(); ++group) {
    std::vector<std::int64_t> durations;
    if (const auto of_group = members.of(GroupId(group)); !of_group.empty()) {
      // Any member will do: all issue the same (actor invariant 8).
      const GroupMember& first = of_group.front();
      const ByRole& issued = by_program[graph.ranks[first.rank.index()].program.index()];
      for (const Issued& one : issued[static_cast<std::size_t>(first.role)])
        durations.push_back(network.duration(one.sizes.of(graph.groups[group].ranks)).value);
    }
    const auto next = static_cast<std::int32_t>(colours.size());
    result[group] = colours.try_emplace(std::move(durations), next).first->second;
  }
  return result;
}

}  // namespace sextant
