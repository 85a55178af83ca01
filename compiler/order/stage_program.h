// What one stage issues when nobody looks at the other stages: cells cut into runs, copies of
// parameters before them, reductions beside the last of them, the optimizer behind them.
#pragma once

#include "compiler/order/cell_order.h"
#include "compiler/order/partition.h"
#include "compiler/strategy/schedule.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/base/units.h"

#include <cstdint>
#include <vector>

namespace sextant {

// A run before its act is known; `begin` and `end` are modelled, counted from the sequence's start.
struct PlannedRun {
  StagedInstanceId instance;
  std::int32_t first_actor = 0;
  std::int32_t num_actors = 0;
  Duration begin, end;
};

// Runs that follow each other without regard to other stages, and where these come in.
struct RunSequence {
  std::vector<PlannedRun> runs;
  Duration duration;                 // until the compute queue is free again
  std::vector<StagedOpId> receives;  // halves that must have been issued before
  struct Sent {
    StagedOpId send;
    Duration at;  // when its input is there
  };
  std::vector<Sent> sends;
};

// A sequence of one stage.
using SequenceId = Id<struct SequenceTag>;

struct StageProgram {
  Table<SequenceId, RunSequence> sequences;
  struct Entry {
    SequenceId sequence;
    std::int32_t act = 0;
  };
  std::vector<Entry> entries;  // one step, in order
};

// Programs of all stages.
std::vector<StageProgram> make_stage_programs(const Partition& partition, Schedule schedule,
                                              const ActorDurations& durations);

}  // namespace sextant
