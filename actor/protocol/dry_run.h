// Untimed proof that a graph cannot deadlock, on any device, for any number of steps (README,
// invariant 6). Serial: all queues of a rank count as one stream.
#pragma once

#include "actor/protocol/program_tables.h"
#include "actor/protocol/program_waits.h"
#include "actor/protocol/rank_classes.h"
#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <memory>
#include <optional>
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
  std::vector<Rank> ranks;  // those that were run
  // One step. The members of a communication are neighbours, except that a launch group stands with
  // the first of its communications to be complete. No rank issues anything while a communication
  // it has issued is incomplete.
  std::vector<Issue> order;
  // By index in `ranks` and by run: which occurrence of which communication it is a member of, -1
  // for computation. Under kOnePerClass one meeting stands for all alike.
  std::vector<std::vector<std::int32_t>> meeting_of_run;
  std::int32_t num_meetings = 0;
};

// The tables of all programs, each built when first asked for. `graph` outlives it.
class GraphTables {
 public:
  explicit GraphTables(const PhysicalGraph& graph)
      : graph_(&graph), programs_(graph.programs.size()) {}
  std::shared_ptr<const ProgramTables> of(ProgramId program);
  // Waits of a program that can run alone, if positions in the order show that it can; else null.
  const ProgramWaits* direct_waits_of(ProgramId program);
  // Waits of a program that can run alone.
  const ProgramWaits& waits_of(ProgramId program);
  // The graph is somewhere else now.
  void refer_to(const PhysicalGraph& graph) { graph_ = &graph; }

 private:
  struct OfProgram {
    std::shared_ptr<const ProgramTables> tables;
    bool asked = false;  // for direct waits
    std::optional<ProgramWaits> waits;
  };
  const PhysicalGraph* graph_;
  std::vector<OfProgram> programs_;
};

// Throws Error(kInfeasible) when some rank cannot go on; the text shows the ring of waits: each
// rank, the run it is at, and the credit, content or peer it misses. Also when members of a group
// issue different communications (invariant 8), and when a counter does not return to its start.
DryRun dry_run(const PhysicalGraph& graph, RankScope scope = RankScope::kOnePerClass);
DryRun dry_run(const PhysicalGraph& graph, const GroupMembers& members, const RankClasses& classes,
               GraphTables& tables);

// A dry run of one rank per class with all that it was made from: the compiler makes one to see
// that its graph can run, and whoever records the graph goes on from there.
struct Rehearsal {
  explicit Rehearsal(const PhysicalGraph& graph)
      : members(graph),
        classes(rank_classes(graph, members)),
        tables(graph),
        dry(dry_run(graph, members, classes, tables)) {}

  GroupMembers members;
  RankClasses classes;
  GraphTables tables;
  DryRun dry;
};

}  // namespace sextant
