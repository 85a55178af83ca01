// Untimed proof that a graph cannot deadlock, on any device, for any number of steps (README,
// invariant 6). Serial: all queues of a rank count as one stream.
#pragma once

#include "core/ids.h"
#include "core/physical_graph.h"

#include <span>
#include <string>
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

struct DryRun {
  std::vector<Rank> ranks;   // those that were run
  std::vector<Issue> order;  // one step; all members of a communication are neighbours
};

// Throws Error(kInfeasible) when some rank cannot go on; the text shows the ring of waits: each
// rank, the run it is at, and the credit, content or peer it misses. Also when a counter does not
// return to its start.
DryRun dry_run(const PhysicalGraph& graph, RankScope scope = RankScope::kOnePerClass);

}  // namespace sextant
