// The fast mode: one recording of the actors, evaluated in one pass per step.
#pragma once

#include "actor/tape.h"
#include "core/cost_model.h"
#include "simulator/simulate.h"
#include "simulator/timeline.h"

namespace sextant {

Timeline run_tape_mode(const PhysicalGraph& graph, const Tape& tape, const RankClasses& classes,
                       const CostModel& cost, const NetworkModel& network,
                       const SimulateOptions& options);

}  // namespace sextant
