// Which ranks behave alike: the coarsest equitable partition of ranks and groups. One rank of each
// class is run for all of it.
#pragma once

#include "core/ids.h"
#include "core/physical_graph.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Place of a rank in a group: the role by which its program names the group.
struct GroupMember {
  Rank rank;
  GroupRole role = 0;
};

// Members of every group, in group order, with their roles.
class GroupMembers {
 public:
  // Throws Error(kBadInput) when a member does not name the group in exactly one role, or a role
  // names a group the rank is not in (invariant 8).
  explicit GroupMembers(const PhysicalGraph& graph);
  std::span<const GroupMember> of(GroupId group) const { return members_[group.index()]; }

 private:
  std::vector<std::vector<GroupMember>> members_;
};

struct RankClasses {
  std::vector<std::int32_t> class_of;  // by rank
  std::vector<Rank> representatives;   // by class, the smallest rank of it, ascending

  std::size_t size() const { return representatives.size(); }
};

// Ranks of a class have equal programs and colours, and their groups in each role have equal
// colours and as many members of each (class, role). Colours say what the graph does not: device
// kinds, link tiers, stragglers, jitter streams. By the equal determinacy of their members, all
// ranks of a class do the same at the same time, for every network model that treats members with
// equal arrivals alike. Empty colours are all equal.
RankClasses rank_classes(const PhysicalGraph& graph, const GroupMembers& members,
                         std::span<const std::int32_t> rank_colours = {},
                         std::span<const std::int32_t> group_colours = {});

// Every rank a class of its own.
RankClasses all_ranks(const PhysicalGraph& graph);

}  // namespace sextant
