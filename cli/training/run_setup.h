// What is known of a run before its first step, for all that happens behind it.
#pragma once

#include "cli/console.h"
#include "cli/runs/run_processes.h"
#include "cli/training/run_checkpoints.h"
#include "cli/training/run_start.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/base/units.h"
#include "core/costs/arena_room.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <optional>
#include <string>

namespace sextant {

// All that it refers to outlives it.
struct RunSetup {
  const PlannedJob& planned;
  const PhysicalGraph& graph;
  const RunArguments& arguments;
  const CommonOptions& common;
  std::string devices;
  bool is_planned_device = true;
  Bytes room_for_data;
  std::optional<ArenaRoom> room;  // that arenas were given
  RunProcesses& processes;
  const RunStart& start;
  RunCheckpoints& checkpoints;

  // The first steps fill caches and page in memory. On a GPU the third is captured, and libraries
  // load their code on the way.
  std::int64_t warm_up_steps() const { return arguments.backend == "cuda" ? 5 : 2; }
  std::int64_t steps() const { return arguments.steps - start.step(); }  // of this run
};

}  // namespace sextant
