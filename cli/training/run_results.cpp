// Files are written whole, each on its own.
#include "cli/training/run_results.h"

#include "cli/training/run_report.h"
#include "core/base/check.h"
#include "core/base/quantile.h"
#include "core/text/json_reader.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

namespace sextant {

RunRecord make_record(const RunSetup& setup, const RunRecorder::Steps& steps, RunEnd end) {
  RunRecord record;
  record.plan_hash = setup.graph.header.plan_hash;
  record.strategy = to_string(setup.planned.plan.strategy);
  record.backend = setup.arguments.backend;
  if (setup.arguments.backend == "cpu") {
    record.queues = setup.arguments.queues.empty() ? kDefaultQueues : setup.arguments.queues;
    record.kernels = setup.arguments.kernels.empty() ? kDefaultKernels : setup.arguments.kernels;
  }
  record.devices = setup.devices;
  record.planned_device = setup.planned.job.cluster.device.name;
  record.is_planned_device = setup.is_planned_device;
  record.end = end;
  record.seed = setup.common.seed;
  record.steps = steps.num_steps();
  record.first_step = setup.start.step();
  record.asked_steps = setup.steps();
  record.skipped_steps = steps.num_skipped();
  record.dropped_choices = steps.num_dropped();
  record.choices = steps.choices_per_step * steps.num_steps();
  record.warm_up_steps = setup.warm_up_steps();
  std::vector<double> times = steps.times_s;
  std::sort(times.begin(), times.end());
  if (!times.empty()) {
    record.step_time_s = quantile(times, 0.5);
    record.step_time_quartiles_s[0] = quantile(times, 0.25);
    record.step_time_quartiles_s[1] = quantile(times, 0.75);
  }
  if (!steps.losses.empty()) {
    record.first_loss = steps.losses.front();
    record.last_loss = steps.losses.back();
  }
  return record;
}

void require_new_results(const CommonOptions& common, const Plan& plan) {
  std::vector<std::string> files = {"metrics.jsonl", "run.json"};
  const std::string path = common.out + "/plan.json";
  if (!common.out.empty() && std::filesystem::is_regular_file(path) &&
      read_text_file(path) != to_json_text(plan))
    files.emplace_back("plan.json");
  require_results_folder(common, files);
  if (!common.out.empty()) require_writable("--out", path);
}

void write_results(const RunSetup& setup, const RunRecorder::Steps& steps, const RunRecord& record,
                   const Console& console) {
  const std::string& out = setup.common.out;
  if (out.empty()) return;
  write_file_whole(out + "/metrics.jsonl", steps.lines);
  write_file_whole(out + "/run.json", to_json_text(record));
  write_file_whole(out + "/plan.json", to_json_text(setup.planned.plan));
  const std::string next =
      steps.times_s.empty() ? "" : fmt::format("; next: sextant compare {0}/plan.json {0}", out);
  console.say(fmt::format("metrics in {}/metrics.jsonl{}", out, next));
}

void write_recording(const RunArguments& arguments, const std::string& recording,
                     const Console& console) {
  if (arguments.record.empty()) return;
  write_file_whole(arguments.record, recording);
  console.say(fmt::format("launches and messages in {}; next: sextant simulate PLAN --replay {}",
                          arguments.record, arguments.record));
}

void keep_unfinished(const RunSetup& setup, const RunRecorder::Steps& steps, RunEnd end,
                     const Console& console) {
  const RunRecord record = make_record(setup, steps, end);
  say_result(record, setup.planned, steps, console);
  setup.checkpoints.say(console);
  write_results(setup, steps, record, console);
  if (end != RunEnd::kInterrupted) return;
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(to_json_text(record));
  if (!setup.arguments.checkpoint.empty()) document["checkpoints"] = setup.checkpoints.document();
  console.document("run", document);
}

void require_trained(const RunRecorder::Steps& steps, const RunRecord& record) {
  if (record.end == RunEnd::kInterrupted) return;  // ends with the signal's exit code
  const auto bad = std::find_if(steps.losses.begin(), steps.losses.end(),
                                [](double loss) { return !std::isfinite(loss); });
  require(bad == steps.losses.end(), ErrorCode::kVerification,
          "the loss of step {} is not finite: {}", record.first_step + (bad - steps.losses.begin()),
          bad == steps.losses.begin() ? "the model gives that before anything is trained"
                                      : "training diverged; try a smaller --learning-rate");
  if (record.end != RunEnd::kComplete || record.skipped_steps < record.steps) return;
  throw Error(ErrorCode::kVerification,
              fmt::format("nothing was trained: {} skipped, because gradients were not finite or "
                          "there were no tokens",
                          record.steps == 1 ? "the one step was"
                                            : fmt::format("all {} steps were", record.steps)),
              {"more --steps, if the loss scale is dynamic: it halves with each of them",
               "a smaller first scale, loss_scale=dynamic:1024",
               "--dtype bf16 or f32, or gradients=wide, if gradients overflow by themselves"});
}

}  // namespace sextant
