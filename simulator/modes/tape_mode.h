// The fast mode is one recorded step, evaluated in one pass per step (prepared_graph.h): its
// options, and timelines from its times.
#pragma once

#include "actor/tapes/tape.h"
#include "core/costs/cost_model.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/step_parts.h"
#include "simulator/steps/timeline.h"

#include <span>
#include <vector>

namespace sextant {

// Of tape mode and of timed mode, which runs a tape too.
TapeOptions tape_options(const SimulateOptions& options);
Timeline timeline_of(const PhysicalGraph& graph, const Tape& tape, const TapeTimes& times,
                     const RankClasses& classes, const SimulateOptions& options);
// The same without the launches.
Timeline outline_of(const PhysicalGraph& graph, const Tape& tape, const TapeTimes& times,
                    const RankClasses& classes, const SimulateOptions& options);
// Of one period, by rank that was run (simulator/steps/step_parts.h).
std::vector<PartDurations> parts_of(const Tape& tape, const TapeTimes& times, Duration period);
// What simulate() says of an outline and these parts, without slices.
Simulation simulation_of(const PhysicalGraph& graph, const Timeline& outline,
                         std::span<const PartDurations> parts);

}  // namespace sextant
