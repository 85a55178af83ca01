// An experiment run by a verb: alone or over processes, with its folder.
#pragma once

#include "cli/console.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/run_processes.h"
#include "cli/verb.h"
#include "core/base/error.h"
#include "experiments/sweeps/experiment.h"

#include <optional>
#include <string>
#include <vector>

namespace sextant {

// Which points of an experiment a verb runs, and how.
struct SweepChoice {
  bool quick = false;  // the cheap ones alone
  std::vector<std::string> points =
      {};                        // by name, whatever they cost; empty: all, or the cheap ones
  std::string point_limit = {};  // "30s": each in a process that ends by then; empty: none
};

std::vector<Option> sweep_options(SweepChoice& choice);

// The files of its folder.
std::vector<std::string> results_of(const Experiment& experiment);

struct ExperimentRun {
  std::string body;              // of the verb's document, as JSON
  std::vector<SweepRow> rows;    // one per point
  std::optional<Error> failure;  // a point met a bug, or none has values
};

// Runs what the folder does not have yet (empty: keeps nothing), writes and says results. Throws
// Error(kUsage) for a folder with results of another experiment, or one that another process writes
// to, for a point that there is not, and for a limit of points in one of several processes;
// Error(kBadInput) for results that cannot be read.
ExperimentRun run_experiment(RunProcesses& processes, const Experiment& experiment,
                             const SweepChoice& choice, const std::string& folder,
                             const CommonOptions& common, Console& console);

// What a verb of one experiment does: runs it into --out, alone or over processes, or says what it
// would do. Throws what run_experiment throws, and its failure once all is said and kept.
void run_experiment_verb(const Experiment& experiment, const SweepChoice& choice,
                         const CommonOptions& common, Console& console);

}  // namespace sextant
