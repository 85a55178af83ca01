// What the processes of a run must have in common, so that they train one model with one plan.
#pragma once

#include "cli/console.h"
#include "cli/runs/run_processes.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/costs/arena_room.h"

#include <optional>

namespace sextant {

// Throws on every process where the program, the plan, the options or the devices of one differ
// from those of the first. Nothing to do for a process alone; all of several call it.
void require_common_run(const PlannedJob& planned, const RunArguments& arguments,
                        const CommonOptions& common, RunProcesses& processes);

// The smallest room of all: the graphs of all processes are one.
std::optional<ArenaRoom> common_room(std::optional<ArenaRoom> room, RunProcesses& processes);

}  // namespace sextant
