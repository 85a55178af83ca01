// Folding where links are shared: the coarsest equitable partition of ranks, groups and links. All
// links of a class have equal capacities and carry equal loads of each class of groups, so all
// groups of a class get equal rates, and one rank, one group and one link of each class tell all.
#pragma once

#include "actor/protocol/rank_classes.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

struct LinkClasses {
  RankClasses ranks;
  std::vector<std::int32_t> group_class;  // by group
  // By link: whether it stands for its class. Links that nobody loads are no class.
  std::vector<bool> is_representative;
};

// Starts from the colours and refines until nothing splits. Contention can break a symmetry that
// ranks and groups alone have (a member whose NIC is shared with another job): then its class is
// split here, before the run.
LinkClasses link_classes(const PhysicalGraph& graph, const GroupMembers& members,
                         const NetworkModel& network, std::span<const std::int32_t> rank_colours,
                         std::span<const std::int32_t> group_colours, MemberOrder order);

}  // namespace sextant
