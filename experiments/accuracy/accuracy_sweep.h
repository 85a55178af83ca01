// Predictions beside measured runs as a sweep: a point per run, which is kept and not predicted
// twice.
#pragma once

#include "experiments/accuracy/observation.h"
#include "experiments/accuracy/report.h"
#include "experiments/sweeps/experiment.h"

#include <vector>

namespace sextant {

// A run that cannot be compared is infeasible, with the reason. Values: step_s, memory_bytes,
// arena_bytes, naive_s, added_s, the parts of the step, `kernels.NAME_s` by kind and
// `beside.NAME_bytes` for what is no arena; references are what was measured. Throws Error(kUsage)
// for two runs of one id.
Experiment accuracy_experiment(const std::vector<Observation>& runs);

// Rows of that experiment with the runs they are of, for summaries; parts of a step have their
// means alone. Runs without a row have no prediction.
std::vector<ComparedRow> compared_rows(const std::vector<Observation>& runs,
                                       const std::vector<SweepRow>& rows);

}  // namespace sextant
