// One step in the steady state, recorded from the real runtime: per launch its queue and waits. The
// simulator evaluates it; CUDA replays it. Never written by hand.
#pragma once

#include "actor/protocol/dry_run.h"
#include "actor/protocol/proven_graph.h"
#include "actor/protocol/rank_classes.h"
#include "actor/protocol/run_ahead.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

using TapeCallId = Id<struct TapeCallTag>;    // in Tape::calls
using TapeCostId = Id<struct TapeCostTag>;    // in Tape::costs
using TapePieceId = Id<struct TapePieceTag>;  // in Tape::pieces

struct TapeWait {
  std::int32_t entry = 0;  // index into Tape::entries
  std::int32_t lag = 0;    // 1: of the previous step
};

struct TapeEntry {
  Rank rank;               // the representative of its class
  std::int32_t place = 0;  // of that rank in Tape::ranks
  RunId run;
  std::int32_t first_wait = 0;  // in Tape::waits
  // Entries with the same meeting are members of one communication; none: computation.
  MeetingId meeting;
  TapeCallId call;                 // the meeting as its own group sees it
  std::int32_t member = 0;         // its position in that group
  std::int32_t launch_group = -1;  // the first entry of its launch group; -1: alone
  TapePieceId piece;               // of computation
  std::uint8_t num_waits = 0;      // as recorded, at most one per queue
  QueueRole queue = QueueRole::kCompute;
  bool opens_launch = true;  // on its queue: members of a launch group count once in the window
  bool optimizer = false;    // its first actor is of that phase
};

// What computation runs: consecutive actors of a block. Many launches run one piece.
struct TapePiece {
  BlockId block;
  std::int32_t first_actor = 0, num_actors = 0;
};

// One question to the network model. A meeting has several where its representatives are in
// different, but equal, groups.
struct TapeCall {
  MeetingId meeting;
  TapeCostId cost;
  std::int32_t first_member = 0, num_members = 0;  // in Tape::members, in group order
};

struct TapeMeeting {
  TapeCallId first_call;  // and those behind it
  std::int32_t num_calls = 0;
  std::int32_t first_entry = 0, num_entries = 0;  // in Tape::meeting_entries

  Range<TapeCallId> calls() const { return {first_call, first_call.plus(num_calls)}; }
};

// Refers into the graph it was recorded from (costs), which outlives it.
struct Tape {
  std::vector<Rank> ranks;
  std::vector<TapeEntry> entries;  // in the dry run's global order
  std::vector<TapeWait> waits;
  Table<MeetingId, TapeMeeting> meetings;  // those of the dry run
  Table<TapeCallId, TapeCall> calls;
  // Who of those that arrive at a meeting stands for each member of a call; calls of one group
  // share a list.
  std::vector<std::int32_t> members;
  std::vector<std::int32_t> meeting_entries;  // those that arrive
  Table<TapeCostId, CollectiveCost> costs;    // distinct ones
  Table<TapePieceId, TapePiece> pieces;

  // The entry that stands for a member.
  std::int32_t entry_of(const TapeCall& call, std::int32_t member) const {
    const TapeMeeting& meeting = meetings[call.meeting];
    const std::int32_t who = members[static_cast<std::size_t>(call.first_member + member)];
    return meeting_entries[static_cast<std::size_t>(meeting.first_entry + who)];
  }
};

// The third step, as every device is given it (actor/protocol/program_waits.h): one rank per class
// of the graph, or per class that colours split further (actor/protocol/rank_classes.h).
Tape record(const ProvenGraph& proven, const RankClasses& classes);

// Times of one run of `steps` steps.
struct TapeTimes {
  std::vector<Time> begin, end;  // of the last step, by tape entry
  std::vector<Time> issued;      // by the host (invariant 9), likewise
  std::vector<Time> step_end;    // per step: when the last launch of the step ended
};

// Duration of every compute entry of a tape, rounded once: the vector that search swaps. Zero for
// communications.
std::vector<Duration> entry_durations(const Tape& tape, const PhysicalGraph& graph,
                                      const CostModel& cost);

struct TapeOptions {
  std::int64_t steps = 3;
  std::int64_t window = kRunAheadLaunches;  // unfinished launches per queue (invariant 9)
  std::int64_t run_ahead_steps = kRunAheadSteps;
  // Relative standard deviation of compute durations (launch_time.h). The ranks of a class share
  // the draws of their representative: give each rank a colour where that is not wanted.
  double jitter = 0.0;
  std::uint64_t seed = 0;
};

// One pass over the entries per step:
//   begin = max(queue free, host, ends of waits); end = begin + duration, or what the network says.
// A launch group begins when all of it may and ends, as a whole, with its last member. All times
// are monotone in every duration.
TapeTimes evaluate(const Tape& tape, const PhysicalGraph& graph,
                   std::span<const Duration> durations, const CostModel& cost,
                   const NetworkModel& network, const TapeOptions& options = {});

}  // namespace sextant
