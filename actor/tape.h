// One step in the steady state, recorded from the real runtime: per launch its queue and waits. The
// simulator evaluates it; CUDA replays it. Never written by hand.
#pragma once

#include "core/cost_model.h"
#include "core/ids.h"
#include "core/physical_graph.h"
#include "core/units.h"

#include <cstdint>
#include <vector>

namespace sextant {

struct TapeWait {
  std::int32_t entry = 0;  // index into Tape::entries
  std::int32_t lag = 0;    // 1: of the previous step
};

struct TapeEntry {
  Rank rank;  // the representative of its class
  RunId run;
  QueueRole queue = QueueRole::kCompute;
  std::int32_t first_wait = 0, num_waits = 0;  // in Tape::waits
  std::int32_t meeting = -1;  // entries with the same meeting are members of one communication
  std::int32_t launch_group = -1;
};

struct Tape {
  std::vector<Rank> ranks;
  std::vector<TapeEntry> entries;  // in the dry run's global order
  std::vector<TapeWait> waits;
  std::int32_t num_meetings = 0;
};

// Records the third step of the runtime against a device that only notes launches.
Tape record(const PhysicalGraph& graph);

// Times of one run of `steps` steps.
struct TapeTimes {
  std::vector<Time> begin, end;  // of the last step, by tape entry
  std::vector<Time> issued;      // when the host launched it (invariant 9), by tape entry
  std::vector<Time> step_end;    // per step: when the last launch of the step ended
};

// Duration of every compute entry of a tape, rounded once: the vector that search swaps.
std::vector<Duration> entry_durations(const Tape& tape, const PhysicalGraph& graph,
                                      const CostModel& cost);

struct TapeOptions {
  std::int64_t steps = 3;
  std::int64_t window = 256;  // unfinished launches per queue (invariant 9)
  double jitter = 0.0;        // relative standard deviation of compute durations, seeded
  std::uint64_t seed = 0;
};

TapeTimes evaluate(const Tape& tape, const PhysicalGraph& graph,
                   std::span<const Duration> durations, const CostModel& cost,
                   const NetworkModel& network, const TapeOptions& options = {});

}  // namespace sextant
