// A sweep over the processes of a launcher: points are dealt out in rounds, and behind each round
// all know all rows.
#pragma once

#include "cli/console.h"
#include "cli/runs/run_processes.h"
#include "experiments/sweeps/sweep.h"

#include <functional>
#include <vector>

namespace sextant {

// `kept`: rows of earlier runs, the same in every process. `keep` takes each new row in the first
// process, of others behind their round; empty elsewhere. Measured points come last, in the first
// process, when nobody else computes. All processes call it with equal points, and have the same
// outcome.
SweepOutcome shared_sweep(RunProcesses& processes, const Sweep& sweep, const RowOrigin& origin,
                          const std::vector<SweepRow>& kept,
                          const std::function<void(const SweepRow&)>& keep, Console& console);

}  // namespace sextant
