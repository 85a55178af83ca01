// The fast mode is one recorded step, evaluated in one pass per step (prepared_graph.h): its
// options, and timelines from its times.
#pragma once

#include "actor/tape.h"
#include "core/cost_model.h"
#include "simulator/simulate.h"
#include "simulator/timeline.h"

namespace sextant {

// Of tape mode and of timed mode, which runs a tape too.
TapeOptions tape_options(const SimulateOptions& options);
Timeline timeline_of(const PhysicalGraph& graph, const Tape& tape, const TapeTimes& times,
                     const RankClasses& classes, const SimulateOptions& options);

}  // namespace sextant
