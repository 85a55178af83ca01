// Which ranks behave alike: the coarsest equitable partition of ranks and groups. One rank of each
// class is run for all of it.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
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
  std::span<const GroupMember> of(GroupId group) const {
    return std::span(members_).subspan(first_[group.index()],
                                       first_[group.index() + 1] - first_[group.index()]);
  }
  // Positions in its groups, by role.
  std::span<const std::int32_t> positions_of(Rank rank) const {
    return std::span(positions_)
        .subspan(first_role_[rank.index()],
                 first_role_[rank.index() + 1] - first_role_[rank.index()]);
  }

 private:
  void add(const PhysicalGraph& graph, GroupId group, Rank rank, std::size_t position);

  std::vector<GroupMember> members_;  // by group
  std::vector<std::size_t> first_;    // of a group, and one more
  std::vector<std::int32_t> positions_;
  std::vector<std::size_t> first_role_;  // of a rank, and one more
};

struct RankClasses {
  std::vector<std::int32_t> class_of;  // by rank
  std::vector<Rank> representatives;   // by class, the smallest rank of it, ascending

  std::size_t size() const { return representatives.size(); }
};

// Whether members of a group that arrive together may be over at different times, by their place
// in the group's order.
enum class MemberOrder : std::uint8_t { kAlike, kDistinct };

// Ranks of a class have equal programs and colours, and their groups in each role have equal
// colours and as many members of each (class, role); with kDistinct the members stand in equal
// order, and the rank itself at the same place. Colours say what the graph does not: device kinds,
// link tiers, stragglers, jitter streams. By the equal determinacy of their members, all ranks of a
// class do the same at the same time, for every network model that treats members with equal
// arrivals (and, with kDistinct, places) alike. Empty colours are all equal.
RankClasses rank_classes(const PhysicalGraph& graph, const GroupMembers& members,
                         std::span<const std::int32_t> rank_colours = {},
                         std::span<const std::int32_t> group_colours = {},
                         MemberOrder order = MemberOrder::kAlike);

// Every rank a class of its own.
RankClasses all_ranks(const PhysicalGraph& graph);

}  // namespace sextant
