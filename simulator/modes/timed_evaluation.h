// A tape in the order of time, where durations depend on what else runs: same queues, host, waits,
// launch groups and window as in one pass (actor/tapes/tape.h), only that what ends is told when it
// does.
#pragma once

#include "actor/tapes/tape.h"
#include "core/costs/cost_model.h"
#include "simulator/links/link_demand.h"
#include "simulator/modes/progress.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

struct TimedTimes {
  TapeTimes times;
  std::vector<Time> place_end;  // of step s at place p: entry s * places + p
  std::int64_t events = 0;      // handled in time order: begins and ends of what can be disturbed
};

// Without contention and overlap the times are those of `evaluate`; otherwise none is earlier.
// `shares` are by place of the tape, or empty. After the steps that are reported, `following` more
// are run, at most the run-ahead: the end of a step contends with the begin of the next.
TimedTimes evaluate_timed(const Tape& tape, std::span<const Duration> durations,
                          const CostModel& cost, const NetworkModel& network,
                          const LinkDemands& demands, std::span<const OverlapShares> shares,
                          const TapeOptions& options, std::int64_t following = 0);

}  // namespace sextant
