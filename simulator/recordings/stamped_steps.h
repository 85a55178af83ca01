// Steps of a run as its devices' stamps tell them (`run --profile`): no waits, no host, and a clock
// of each rank's own.
#pragma once

#include "actor/protocol/device.h"
#include "core/graphs/physical_graph.h"
#include "simulator/steps/timeline.h"

#include <vector>

namespace sextant {

// `stamps` by rank. A timeline for every step but the first; times of a rank begin with its own end
// of the step before, which all have at one time, and a step's time is the slowest rank's. Of a
// communication the member that took least came last: no clock of several ranks is needed to know
// how long the others waited. What was issued when is not known: a launch counts as issued when it
// began.
std::vector<Timeline> stamped_steps(const PhysicalGraph& graph,
                                    const std::vector<std::vector<Stamp>>& stamps);

}  // namespace sextant
