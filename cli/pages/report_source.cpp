// Files decide, in this order: summary.json, run.json, plan.json.
#include "cli/pages/report_source.h"

#include "core/base/check.h"

#include <filesystem>
#include <utility>

namespace sextant {
namespace {

bool holds(const std::string& folder, const char* file) {
  return std::filesystem::exists(folder + "/" + file);
}

PlanSource plan_source(JobArguments job) {
  PlannedJob planned = load_planned_job(job);
  return {std::move(job.plan_or_model), std::move(planned)};
}

ReportSource read_folder(const JobArguments& job) {
  const std::string& folder = job.plan_or_model;
  if (holds(folder, "summary.json") || holds(folder, "results.jsonl"))
    return experiment_view(folder);
  if (holds(folder, "run.json") || holds(folder, "metrics.jsonl")) return read_run(folder);
  require(holds(folder, "plan.json"), ErrorCode::kBadInput,
          "{}: neither plan, run nor experiment: none of plan.json, run.json and summary.json is "
          "in this folder",
          folder);
  JobArguments plan = job;
  plan.plan_or_model += "/plan.json";
  return plan_source(plan);
}

}  // namespace

ReportSource read_report_source(const JobArguments& job) {
  if (std::filesystem::is_directory(job.plan_or_model)) return read_folder(job);
  return plan_source(job);
}

}  // namespace sextant
