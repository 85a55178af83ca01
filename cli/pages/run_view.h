// All that a page says of a run: its folder, and its plan beside it.
#pragma once

#include "cli/pages/plan_view.h"
#include "cli/runs/predicted_times.h"
#include "cli/runs/run_record.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// A line of metrics.jsonl.
struct RunStep {
  std::int64_t step = 0;
  std::optional<double> loss;  // nothing: it is no number
  double seconds = 0;
  bool is_skipped = false;
};

struct RunView {
  std::string name;  // the folder, as it was named
  RunRecord record;
  std::vector<RunStep> steps;
  bool is_cut = false;  // the last line of metrics.jsonl has no end
  PlanView plan;
  // Predicted as the run made it: every rank, launch by launch.
  double predicted_step_s = 0;
  std::optional<bool> is_order_equal;  // nothing: the run left no order
  std::vector<OperatorRow> operators, kinds;
  bool is_planned_device = true;
  std::optional<double> slowdown;

  Origin measured() const;  // "run/run.json: ...", of its devices
};

struct RunFiles {
  std::string folder;
  RunRecord record;
  std::vector<RunStep> steps;
  bool is_cut = false;
  PlannedJob planned;
};

// Reads run.json, metrics.jsonl and plan.json of `folder`. Throws Error(kBadInput) naming the file
// that is missing (what a run that died leaves), the line or key that is wrong, a record of another
// version or another plan, and a run without a step.
RunFiles read_run(const std::string& folder);

// Compiles and simulates the plan. Throws what plan_view throws.
RunView run_view(RunFiles files);

}  // namespace sextant
