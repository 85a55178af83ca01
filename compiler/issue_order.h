// One order of all launches of all stages, from modelled time. Cut per stage it is the issue order
// of the programs, and since it is one order, no cut of it can wait in a ring.
#pragma once

#include "compiler/stage_program.h"

#include <cstdint>
#include <vector>

namespace sextant {

// A run of a stage's order with its modelled time.
struct OrderedRun {
  std::int32_t instance = 0;  // in Partition::instances
  std::int32_t first_actor = 0;
  std::int32_t num_actors = 0;
  std::int32_t act = 0;
  std::int32_t launch_group = -1;
  Time begin, end;
};

using IssueOrder = std::vector<std::vector<OrderedRun>>;  // by stage

// Compute runs are ordered by their start, transfers by the end of their producer, both halves at
// one place. With `launch_groups`, opposite transfers between two stages that are neighbours in
// both orders start together. Throws Error(kInfeasible) when the stages wait for each other.
IssueOrder make_issue_order(const Partition& partition, const std::vector<StageProgram>& programs,
                            const ActorDurations& durations, bool launch_groups);

}  // namespace sextant
