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

// What timed mode, which runs a tape too, has in common with it.
TapeOptions tape_options(const SimulateOptions& options);
Timeline timeline_of(const PhysicalGraph& graph, const Tape& tape, const TapeTimes& times,
                     const RankClasses& classes, const SimulateOptions& options);

}  // namespace sextant
