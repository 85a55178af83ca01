// Untimed proof that a graph cannot deadlock, on any device, for any number of steps (README,
// invariant 6). Serial: all queues of a rank count as one stream.
#pragma once

#include "actor/protocol/graph_tables.h"
#include "actor/protocol/rank_classes.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

enum class RankScope {
  kOnePerClass,  // representatives; members of a class stand for each other
  kAllRanks,
};

// One issue: rank `rank` (a representative under kOnePerClass) issues its next run or launch group.
struct Issue {
  Rank rank;
  RunId first;
  std::int32_t num_runs = 1;
};

// An occurrence of a communication, at which its members meet.
using MeetingId = Id<struct MeetingTag>;

struct DryRun {
  std::vector<Rank> ranks;  // those that were run
  // One step. The members of a communication are neighbours, except that a launch group stands with
  // the first of its communications to be complete. No rank issues anything while a communication
  // it has issued is incomplete.
  std::vector<Issue> order;
  // By index in `ranks` and by run: the meeting it comes to; none: computation. Under
  // kOnePerClass one meeting stands for all alike.
  std::vector<Table<RunId, MeetingId>> meeting_of_run;
  std::size_t num_meetings = 0;
};

// Throws Error(kInfeasible) when some rank cannot go on; the text shows the ring of waits: each
// rank, the run it is at, and the credit, content or peer it misses. Also when members of a group
// issue different communications (invariant 8), and when a counter does not return to its start.
DryRun dry_run(const PhysicalGraph& graph, RankScope scope = RankScope::kOnePerClass);
DryRun dry_run(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
               const GraphTables& tables);

}  // namespace sextant
