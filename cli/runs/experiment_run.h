// An experiment run by a verb: alone or over processes, with its folder.
#pragma once

#include "cli/console.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/run_processes.h"
#include "core/base/error.h"
#include "experiments/sweeps/experiment.h"

#include <optional>
#include <string>
#include <vector>

namespace sextant {

// The files of its folder.
std::vector<std::string> results_of(const Experiment& experiment);

struct ExperimentRun {
  std::string body;              // of the verb's document, as JSON
  std::optional<Error> failure;  // a point met a bug, or none has values
};

// Runs what the folder does not have yet (empty: keeps nothing), writes and says results. Throws
// Error(kUsage) for a folder with results of another experiment, or one that another process writes
// to, and Error(kBadInput) for results that cannot be read.
ExperimentRun run_experiment(RunProcesses& processes, const Experiment& experiment, bool quick,
                             const std::string& folder, const CommonOptions& common,
                             Console& console);

// What a verb of one experiment does: runs it into --out, alone or over processes, or says what it
// would do. Throws what run_experiment throws, and its failure once all is said and kept.
void run_experiment_verb(const Experiment& experiment, bool quick, const CommonOptions& common,
                         Console& console);

}  // namespace sextant
