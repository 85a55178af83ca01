// What may run while a collective is under way, from the order of issue and the waits alone, and
// who waits then if each takes so long. Devices divide their processors by it.
#pragma once

#include "actor/protocol/program_tables.h"
#include "actor/protocol/program_waits.h"

#include <span>
#include <vector>

namespace sextant {

struct Overlap {
  // By run. Of computation: a collective was issued before it for which computation has not waited
  // yet. Of collectives: computation is issued behind it before any waits for it.
  std::vector<bool> beside;
};

// Looks at the steady state: what the step before left open counts.
Overlap overlap_of(std::span<const RunEntry> runs, const ProgramWaits& waits);

// How long computation of one step waits for collectives, in the steady state, where each run takes
// its `seconds`. Collectives follow each other as computation does; runs of other queues take no
// time, and other ranks are always there.
double waiting_time(std::span<const RunEntry> runs, const ProgramWaits& waits,
                    std::span<const double> seconds);

}  // namespace sextant
