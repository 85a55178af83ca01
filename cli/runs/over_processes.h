// One verb over the processes of a launcher: the first speaks and writes, the others end as it
// does.
#pragma once

#include "backends/hosts/process_group.h"
#include "cli/console.h"
#include "cli/runs/run_processes.h"

#include <functional>

namespace sextant {

// What one process does, with the options and the console it has: the others of the first are
// quiet and write nothing.
using ProcessWork = std::function<void(RunProcesses&, const CommonOptions&, Console&)>;

// Joins, works and leaves, as one of the processes of `launched`; where it fails it ends the
// process with the exit code that all have.
void run_over(const Launched& launched, double timeout_s, const CommonOptions& common,
              Console& console, const ProcessWork& work);

// Works over the processes that a launcher has started, with the timeout of verbs that have no
// option for it; where there is none, in this process alone.
void alone_or_over_processes(const CommonOptions& common, Console& console,
                             const ProcessWork& work);

}  // namespace sextant
