// The mode for contention: the recorded step in the order of time (simulator/timed_evaluation.h).
#pragma once

#include "actor/rank_classes.h"
#include "core/cost_model.h"
#include "simulator/simulate.h"
#include "simulator/timeline.h"

#include <cstdint>
#include <span>

namespace sextant {

MemberOrder member_order(const NetworkModel& network);

// Folded over ranks, groups and links where it `folds` (simulator/link_classes.h).
Timeline run_timed_mode(const PhysicalGraph& graph, const GroupMembers& members,
                        std::span<const std::int32_t> rank_colours, bool folds,
                        const CostModel& cost, const NetworkModel& network,
                        const SimulateOptions& options);

}  // namespace sextant
