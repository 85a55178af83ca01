// One order of all launches of all stages, from modelled time. Cut per stage it is the issue order
// of the programs, and since it is one order, no cut of it can wait in a ring.
#pragma once

#include "compiler/order/stage_program.h"

#include <cstdint>
#include <vector>

namespace sextant {

// A run of a stage's order with its modelled time.
struct OrderedRun {
  StagedInstanceId instance;
  std::int32_t first_actor = 0;
  std::int32_t num_actors = 0;
  std::int32_t act = 0;
  LaunchGroupId launch_group = {};
  Time begin, end;
};

using IssueOrder = std::vector<std::vector<OrderedRun>>;  // by stage

// When a transfer gets its place, both halves at one: as soon as what it sends is there, or no
// sooner than its first reader is next on its stage, so that what arrives waits less in memory.
enum class TransferOrder : std::uint8_t {
  kEarly,  // at the end of the producer
  kLate,   // at the start of the sequence before the reader's, if that is later
};

struct IssueOptions {
  // Opposite transfers between two stages that are neighbours in both orders start together.
  bool launch_groups = false;
  TransferOrder transfer_order = TransferOrder::kEarly;
};

// Compute runs are ordered by their start, transfers as the options say. Throws Error(kInfeasible)
// when the stages wait for each other.
IssueOrder make_issue_order(const Partition& partition, const std::vector<StageProgram>& programs,
                            const ActorDurations& durations, const IssueOptions& options);

}  // namespace sextant
