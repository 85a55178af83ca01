// A recorded run on the virtual clock: the actors again, with the durations of the recording.
#pragma once

#include "core/graphs/physical_graph.h"
#include "simulator/recordings/recording.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Where a recording contradicts the protocol.
struct Contradiction {
  std::int64_t launches = 0;  // that do
  std::string first;          // of them, for people; empty: none
};

struct ReplayedRun {
  // All ranks; launches of the reported step. `step_end` ends with that step, so that step_time()
  // is its time.
  Timeline timeline;
  std::vector<Time> step_end;  // of every step
  std::int64_t step = 0;       // that is reported
  Contradiction early;         // launches that began before they might
  Contradiction waits;         // launches that waited for others than the actors say
};

struct ReplayOptions {
  bool start_delays = true;  // without: what may be issued or begin does so at once
  // That is reported; nothing: the one of median time behind the warm-up.
  std::optional<std::int64_t> step = {};
};

// The first launch that is not the one the plan issues there, or is missing, for people; nothing
// where all are the plan's. `plan` has the ranks of the recording.
std::optional<std::string> order_difference(const PhysicalGraph& plan, const Recording& recording);

// Throws Error(kBadInput) where launches are not those of the plan.
ReplayedRun replay(const PhysicalGraph& plan, const Recording& recording,
                   const ReplayOptions& options = {});

// By step, from the end of the one before; the first from the first issue.
std::vector<Duration> step_times(const Recording& recording);
// Median behind the warm-up; of all steps where there are no others.
Duration median_step_time(const Recording& recording);
// Of these ends of steps, behind the warm-up; of all steps where there are no others.
Duration mean_step_time(std::span<const Time> ends, std::int64_t warm_up_steps);

}  // namespace sextant
