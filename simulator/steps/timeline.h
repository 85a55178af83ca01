// One step in the steady state as it was timed: what each mode of the simulator hands to the
// accounting of parts and to the trace.
#pragma once

#include "actor/runtime.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace sextant {

struct TimedRun {
  RunId run;
  QueueRole queue = QueueRole::kCompute;
  bool optimizer = false;  // compute of the optimizer phase
  Time issued;             // by the host
  Time arrived;            // communications: when the last member was there; else = begin
  Time begin, end;
};

struct RankTimeline {
  Rank rank;
  std::int64_t ranks = 1;      // it stands for
  std::vector<TimedRun> runs;  // of the last step
};

// Of block mode, per step.
struct BlockUse {
  std::int64_t kinds = 0;             // distinct blocks
  std::int64_t instances = 0;         // of them
  std::int64_t launches_outside = 0;  // timed one by one
  bool fell_back = false;             // to the tape: the blocks did not prove their times
};

struct Timeline {
  std::vector<RankTimeline> ranks;
  std::vector<std::int32_t> place_of;  // by rank of the graph: which of `ranks` tells its times
  std::vector<Time> step_end;          // per step: when its last launch ended
  std::int64_t events = 0;             // launches timed, all steps
  std::optional<BlockUse> blocks;
  // Step mode: what each of `ranks` issued over all steps (actor invariant 5).
  std::vector<IssueHash> issued;
  Traffic traffic;  // of the last step, when asked for

  // Between the ends of the last two steps; of one step, its end.
  Duration step_time() const;
  std::vector<Duration> step_times() const;  // by step, from end to end
  // Of the last step, over all ranks; its end when nothing ran.
  Time first_begin() const;
  // When the last step but one ended, from which two steps can be told by the same clock; of one
  // step, its first begin.
  Time origin() const;
};

}  // namespace sextant
