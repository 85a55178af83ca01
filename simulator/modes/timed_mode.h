// The mode for contention: the recorded step in the order of time
// (simulator/modes/timed_evaluation.h).
#pragma once

#include "actor/protocol/proven_graph.h"
#include "actor/protocol/rank_classes.h"
#include "core/costs/cost_model.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <span>

namespace sextant {

MemberOrder member_order(const NetworkModel& network);

// Folded over ranks, groups and links where it `folds` (simulator/links/link_classes.h).
Timeline run_timed_mode(const ProvenGraph& proven, std::span<const std::int32_t> rank_colours,
                        bool folds, const CostModel& cost, const NetworkModel& network,
                        const SimulateOptions& options);

}  // namespace sextant
