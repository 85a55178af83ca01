// Files first, so that nothing is compiled for a folder that is no run.
#include "cli/pages/run_view.h"

#include "cli/runs/json_lines.h"
#include "cli/runs/planned_device.h"
#include "core/base/check.h"

#include <fmt/core.h>

#include <filesystem>
#include <limits>
#include <utility>

namespace sextant {
namespace {

std::string required_file(const std::string& folder, const char* name) {
  std::string path = folder + "/" + name;
  require(std::filesystem::exists(path), ErrorCode::kBadInput,
          "{}: no such file: {} is no whole run; `run --out` writes plan.json, run.json and "
          "metrics.jsonl at its end, and a run that was killed leaves none",
          path, folder);
  return path;
}

RunStep step_from(const JsonCursor& line) {
  RunStep step;
  step.step = line.at("step").integer_between(0, std::numeric_limits<std::int64_t>::max());
  if (const auto loss = line.find_value("loss")) step.loss = loss->real();
  step.seconds = line.at("step_time_s").real();
  if (const auto skipped = line.find_value("skipped")) step.is_skipped = skipped->boolean();
  return step;
}

struct ReadSteps {
  std::vector<RunStep> steps;
  bool is_cut = false;
};

ReadSteps read_steps(const std::string& path) {
  const JsonLines read = read_json_lines(path);
  ReadSteps steps{{}, read.is_cut};
  for (const JsonLines::Line& line : read.lines)
    steps.steps.push_back(step_from(line.document.root()));
  require(!steps.steps.empty(), ErrorCode::kBadInput,
          "{}: no step in it: the run ended before its first, and there is nothing to report",
          path);
  return steps;
}

PlannedJob plan_of(const std::string& path) {
  JobArguments job;
  job.plan_or_model = path;
  require(is_plan_file(path), ErrorCode::kBadInput, "{}: not a plan file", path);
  return load_planned_job(job);
}

// Step, operators and order, where the run has times.
void add_predictions(RunView& view) {
  const PlannedJob& planned = view.plan.planned;
  const PhysicalGraph& graph = view.plan.graph();
  const Timeline timeline = timeline_beside(planned, graph, view.record);
  view.predicted_step_s = to_seconds(timeline.step_time());
  if (has_order(view.record)) view.is_order_equal = timeline.issued == view.record.issued;
  const PredictedTimes predicted = predicted_times(graph, *planned.cost, timeline);
  view.operators = operator_rows(predicted.operators, view.record.operator_time_s);
  view.kinds = operator_rows(predicted.kinds, view.record.kind_time_s);
}

}  // namespace

Origin RunView::measured() const {
  std::string source = fmt::format("{}: {}, seed {}", name, record.devices, record.seed);
  if (!record.kernels.empty())
    source += fmt::format(", {} kernels, {} queues", record.kernels, record.queues);
  return {OriginKind::kMeasured, source};
}

RunFiles read_run(const std::string& folder) {
  const std::string record_file = required_file(folder, "run.json");
  const std::string plan_file = required_file(folder, "plan.json");
  const std::string steps_file = required_file(folder, "metrics.jsonl");
  RunRecord record = run_record_from_json(read_text_file(record_file), record_file);
  ReadSteps read = read_steps(steps_file);
  PlannedJob planned = plan_of(plan_file);
  const std::string hash = text_hash(to_json_text(planned.plan));
  require(record.plan_hash == hash, ErrorCode::kBadInput, "{} was made with plan {}, {} is plan {}",
          record_file, record.plan_hash, plan_file, hash);
  return {folder, std::move(record), std::move(read.steps), read.is_cut, std::move(planned)};
}

RunView run_view(RunFiles files) {
  const DeviceKind& device = files.planned.job.cluster.device;
  const bool is_planned = is_planned_device(files.record.backend, device, files.record.devices);
  const std::optional<double> slower = is_planned ? slowdown(device, files.record) : std::nullopt;
  RunView view{.name = files.folder,
               .record = std::move(files.record),
               .steps = std::move(files.steps),
               .is_cut = files.is_cut,
               .plan = plan_view(std::move(files.planned), files.folder + "/plan.json"),
               .predicted_step_s = 0,
               .is_order_equal = std::nullopt,
               .operators = {},
               .kinds = {},
               .is_planned_device = is_planned,
               .slowdown = slower};
  add_predictions(view);
  return view;
}

}  // namespace sextant
