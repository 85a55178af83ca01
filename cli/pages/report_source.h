// What a report is asked for: a plan, a run or an experiment, told apart by the files that are
// there.
#pragma once

#include "cli/pages/experiment_view.h"
#include "cli/pages/run_view.h"
#include "cli/workflow.h"

#include <string>
#include <variant>

namespace sextant {

struct PlanSource {
  std::string name;  // file, or MODEL
  PlannedJob planned;
};
// Read and checked, nothing compiled yet.
using ReportSource = std::variant<PlanSource, RunFiles, ExperimentView>;

// `job.plan_or_model`: a plan file; a folder of `search --out` (plan.json), of `run --out`
// (run.json) or of `experiment --out` (summary.json); or a MODEL with the rest of `job`. Throws
// Error(kBadInput) for a folder that is none of these, with what was looked for, and what the
// readers throw.
ReportSource read_report_source(const JobArguments& job);

}  // namespace sextant
