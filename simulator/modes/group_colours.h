// What the network says about groups that the graph does not: groups of one colour take equally
// long for everything their members issue in them. Input of the folding
// (actor/protocol/rank_classes.h).
#pragma once

#include "actor/protocol/rank_classes.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <vector>

namespace sextant {

// By group. Link tiers, sizes and uneven volumes all show in the isolated durations, so nothing of
// the network model but its interface is needed.
std::vector<std::int32_t> group_colours(const PhysicalGraph& graph, const GroupMembers& members,
                                        const NetworkModel& network);

}  // namespace sextant
