// What the members of a group issue in it, each distinct communication once: what folding asks the
// network model about.
#pragma once

#include "actor/protocol/rank_classes.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"

#include <vector>

namespace sextant {

// Borrows graph and members.
class GroupCommunications {
 public:
  GroupCommunications(const PhysicalGraph& graph, const GroupMembers& members);

  // In one order for all groups of a role; empty for a group that nobody names.
  std::vector<CollectiveCost> of(GroupId group) const;

 private:
  // Distinct communications of a program, by role.
  struct Issued {
    const Communication* communication;
    CollectiveSizes sizes;
  };
  using ByRole = std::vector<std::vector<Issued>>;

  static ByRole by_role(const PhysicalGraph& graph, const RankProgram& program);

  const PhysicalGraph& graph_;
  const GroupMembers& members_;
  std::vector<ByRole> by_program_;
};

}  // namespace sextant
