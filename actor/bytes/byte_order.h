// Invariant 7: any two uses of overlapping bytes, one of them a write, are ordered by one queue, by
// fences or by a guard. The compiler asks for the guards that are missing; the check finds them
// again by another way.
#pragma once

#include "actor/protocol/device.h"
#include "actor/protocol/dry_run.h"
#include "actor/protocol/program_tables.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Guards that make the program's bytes ordered: vector clocks over queues, through two steps.
// Deterministic, and none that fences already imply. Throws Error(kInfeasible) where no guard can
// help: members of one launch group use the same bytes, or a host actor's bytes are not its own.
std::vector<Guard> missing_guards(const PhysicalGraph& graph, ProgramId program);
// Guards as above, from tables of this graph, which serve whoever asks next; programs in parallel.
std::vector<Guard> missing_guards(const PhysicalGraph& graph, ProgramId program,
                                  const GraphTables& tables);

// Independent check of a program with its guards, from the waits that the runtime really issues in
// three steps: one message per unordered pair of uses (at most 20), naming both runs and the
// register; and one per read that finds bytes of another content than its own.
std::vector<std::string> check_byte_order(const PhysicalGraph& graph, ProgramId program);
std::vector<std::string> check_byte_order(const PhysicalGraph& graph, ProgramId program,
                                          std::shared_ptr<const ProgramTables> tables);

// The two halves of the check, apart so that a test can tamper with what is between them.
struct NotedLaunch {
  RunId run;
  std::int64_t step = 0;
  std::int64_t call = 0;  // launches of one call start together
  Fence fence;
  std::vector<Fence> waits;
};
// What a runtime with these tables launches in three steps.
std::vector<NotedLaunch> note_launches(const PhysicalGraph& graph, ProgramId program,
                                       std::shared_ptr<const ProgramTables> tables);
std::vector<std::string> check_noted_order(const PhysicalGraph& graph, ProgramId program,
                                           const ProgramTables& tables,
                                           std::vector<NotedLaunch> launches);

}  // namespace sextant
