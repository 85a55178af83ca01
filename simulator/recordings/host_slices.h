// Acts of host actors of a recorded step, for a trace: each actor has a lane of its own.
#pragma once

#include "simulator/modes/simulate.h"
#include "simulator/recordings/recording.h"
#include "simulator/steps/timeline.h"

#include <vector>

namespace sextant {

// Puts what overlaps the step that `timeline` tells behind the slices of its rank, cut to the step.
void add_host_slices(const Recording& recording, const Timeline& timeline,
                     std::vector<TraceSlice>& slices);

}  // namespace sextant
