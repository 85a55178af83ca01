// The reference mode: the actors themselves, launch by launch, on SimDevices.
#pragma once

#include "actor/protocol/proven_graph.h"
#include "actor/protocol/rank_classes.h"
#include "core/costs/cost_model.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <span>

namespace sextant {

// Runs one rank of each class for `options.steps` steps, each issue in the dry run's global order.
Timeline run_step_mode(const ProvenGraph& proven, const RankClasses& classes,
                       std::span<const std::int32_t> group_colours, const CostModel& cost,
                       const NetworkModel& network, const SimulateOptions& options);

}  // namespace sextant
