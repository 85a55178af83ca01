// An experiment run by a verb: alone or over processes, with its folder.
#pragma once

#include "cli/console.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/run_processes.h"
#include "experiments/sweeps/experiment.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace sextant {

// The files of its folder.
std::vector<std::string> results_of(const Experiment& experiment);

// Runs what the folder does not have yet (empty: keeps nothing), writes and says results; the body
// of the verb's document. Throws Error(kUsage) for a folder with results of another experiment, or
// one that another process writes to, and Error(kBadInput) for results that cannot be read.
nlohmann::ordered_json run_experiment(RunProcesses& processes, const Experiment& experiment,
                                      bool quick, const std::string& folder,
                                      const CommonOptions& common, Console& console);

// Alone, or in each process of a launcher; all are of one build.
void over_all_processes(const CommonOptions& common, Console& console, const ProcessWork& act);

}  // namespace sextant
