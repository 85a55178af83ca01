// `sextant compare`: what was predicted beside what was measured.
#include "backends/cpu/machine_load.h"
#include "cli/communication_report.h"
#include "cli/runs/planned_device.h"
#include "cli/runs/predicted_times.h"
#include "cli/runs/run_record.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "simulator/clusters/figures.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

std::string seconds_text(double seconds) { return to_text(duration_from_seconds(seconds)); }

// One prediction beside what was measured. What another device took is no error of the prediction.
class Comparison {
 public:
  explicit Comparison(bool is_planned_device) : is_planned_device_(is_planned_device) {}

  TextTable table(std::string first) const {
    return TextTable({std::move(first), "predicted", "measured", "error"});
  }
  void add_row(TextTable& table, const OperatorRow& row) const {
    table.add({row.name, seconds_text(row.predicted_s), seconds_text(row.measured_s),
               error_text(row.predicted_s, row.measured_s)});
  }
  Json error_json(std::optional<double> error) const {
    return is_planned_device_ && error ? Json(*error) : Json();
  }

  // Measured zero: nothing to be relative to.
  std::string error_text(double predicted, double measured) const {
    if (!is_planned_device_) return "other device";
    return measured > 0 ? fmt::format("{:+.0f} %", 100 * relative_error(predicted, measured))
                        : "n/a";
  }

 private:
  const bool is_planned_device_;
};

// With the work of launches that are known by name.
Json rows_json(const std::vector<OperatorRow>& rows,
               const std::map<std::string, LaunchedWork>& works = {}) {
  Json json = Json::array();
  for (const OperatorRow& row : rows) {
    json.push_back(
        {{"name", row.name}, {"predicted_s", row.predicted_s}, {"measured_s", row.measured_s}});
    const auto found = works.find(row.name);
    if (found == works.end()) continue;
    const LaunchedWork& work = found->second;
    json.back()["kernel"] = work.kernel;
    json.back()["launches"] = work.launches;
    json.back()["operators"] = work.operators;
    json.back()["flops"] = work.flops;
    json.back()["bytes"] = work.bytes;
  }
  return json;
}

void say_order(const PhysicalGraph& graph, const RunRecord& record, const Timeline& timeline,
               const Console& console) {
  if (record.end != RunEnd::kComplete)
    console.say(fmt::format("the run was {} after {} of {}{}", to_string(record.end), record.steps,
                            counted(record.asked_steps, "step"),
                            has_order(record) ? ", while operators were timed"
                                              : ": the issue order of such a run is not recorded"));
  if (!has_order(record)) return;
  console.say(fmt::format("issue order of {} over {}: {}", counted(graph.ranks.size(), "rank"),
                          counted(record.steps, "step"),
                          timeline.issued == record.issued ? "equal" : "DIFFERENT"));
}

// A machine whose clock or neighbours changed since its figures were measured: what is left of the
// step's error without that.
void say_speed(double slowdown, double predicted_s, const RunRecord& record,
               const std::string& cluster, const Console& console) {
  constexpr double kSame = 0.03;
  if (std::abs(slowdown - 1) < kSame) return;
  console.say(
      fmt::format("this machine's processors were {:.0f} % {} during the run than when {} was "
                  "measured: at their speed the prediction is {}, its error {:+.0f} %",
                  100 * std::abs(1 - slowdown), slowdown > 1 ? "slower" : "faster", cluster,
                  seconds_text(predicted_s * slowdown),
                  100 * relative_error(predicted_s * slowdown, record.step_time_s)));
}

void say_operators(const Comparison& comparison, const std::vector<OperatorRow>& rows,
                   const std::vector<OperatorRow>& kinds, bool is_planned_device,
                   const Console& console) {
  if (!kinds.empty()) {
    TextTable by_kind = comparison.table("operator kind");
    for (const OperatorRow& row : kinds) comparison.add_row(by_kind, row);
    console.say(by_kind.text());
  }
  if (rows.empty()) console.say("no times per operator: run with --profile 3 to measure them");
  if (const auto error = median_error(rows); error && is_planned_device)
    console.say(fmt::format("median error of {}: {:.0f} %", counted(rows.size(), "operator"),
                            100 * *error));
}

// Nothing of a run that was not profiled, or by an earlier version.
std::optional<CommunicationComparison> compared_communication(const PlannedJob& planned,
                                                              const PhysicalGraph& graph,
                                                              const Timeline& timeline,
                                                              const RunRecord& record,
                                                              const Comparison& comparison) {
  if (!record.communication) return std::nullopt;
  PredictedCommunication predicted = predicted_communication(planned, graph, timeline);
  return CommunicationComparison{
      std::move(predicted.use), *record.communication, std::move(predicted.mode),
      [comparison](double first, double second) { return comparison.error_text(first, second); }};
}

void run_compare(const CompareArguments& arguments, const CommonOptions&, Console& console) {
  JobArguments job;
  job.plan_or_model = arguments.plan;
  require(is_plan_file(job.plan_or_model), ErrorCode::kBadInput, "{}: not a plan file",
          job.plan_or_model);
  PlannedJob planned = load_planned_job(job);
  if (std::filesystem::is_regular_file(arguments.run))
    return run_compare_recording(arguments, planned, console);
  require(arguments.trace.empty(), ErrorCode::kUsage,
          "--trace {}: only a recording (run --record FILE) has what it draws", arguments.trace);
  const std::string file = arguments.run + "/run.json";
  const RunRecord record = run_record_from_json(read_text_file(file), file);
  require(record.step_time_s > 0, ErrorCode::kBadInput, "{}: {}{} leave no step time after {}",
          file, counted(record.steps, "step"),
          record.end == RunEnd::kComplete
              ? ""
              : fmt::format(" of {} ({})", record.asked_steps, to_string(record.end)),
          counted(record.warm_up_steps, "warm-up step"));
  const PhysicalGraph graph = physical_graph(planned);
  require(record.plan_hash == graph.header.plan_hash, ErrorCode::kBadInput,
          "{} was made with plan {}, {} is plan {}", file, record.plan_hash, arguments.plan,
          graph.header.plan_hash);
  const Timeline timeline = timeline_beside(planned, graph, record);
  const double predicted_s = to_seconds(timeline.step_time());
  const bool is_planned =
      is_planned_device(record.backend, planned.job.cluster.device, record.devices);
  const Comparison comparison(is_planned);
  TextTable table = comparison.table("");
  comparison.add_row(table, {"step", predicted_s, record.step_time_s});
  const PredictedTimes predicted = predicted_times(graph, *planned.cost, timeline);
  const auto rows = operator_rows(predicted.operators, record.operator_time_s);
  const auto kinds = operator_rows(predicted.kinds, record.kind_time_s);
  for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 12); ++i)
    comparison.add_row(table, rows[i]);
  console.say(table.text());
  say_operators(comparison, rows, kinds, is_planned, console);
  const auto communication = compared_communication(planned, graph, timeline, record, comparison);
  if (communication) say(*communication, console);
  if (!is_planned)
    console.say(
        fmt::format("predicted for {}, measured on {}: the run checks order and losses of "
                    "the plan, not its times",
                    planned.job.cluster.device.name, record.devices));
  if (const OthersLoad load{record.others_share.value_or(0), 0}; !load.is_quiet())
    console.say(busy_text(load) + " during the run: measured times are too long");
  const std::optional<double> slower =
      is_planned ? slowdown(planned.job.cluster.device, record) : std::nullopt;
  if (slower) say_speed(*slower, predicted_s, record, planned.job.cluster.name, console);
  say_order(graph, record, timeline, console);
  if (record.skipped_steps > 0)
    console.say(fmt::format("{} of {} skipped", record.skipped_steps,
                            counted(record.steps, "step was", "steps were")));
  const auto provenances = provenances_of(planned.job.cluster);
  console.say(fmt::format("figures of {}: {}; see sextant cluster show {}",
                          planned.job.cluster.name, to_text(provenances), planned.plan.cluster));
  Json figures;
  for (const auto& [provenance, count] : provenances)
    figures[std::string(to_string(provenance))] = count;
  console.document(
      "compare",
      {{"predicted_step_time_s", predicted_s},
       {"measured_step_time_s", record.step_time_s},
       {"is_planned_device", is_planned},
       {"step_error", comparison.error_json(relative_error(predicted_s, record.step_time_s))},
       {"slowdown", slower ? Json(*slower) : Json()},
       {"per_operator", rows_json(rows, predicted.works)},
       {"per_kind", rows_json(kinds)},
       {"communication", communication ? to_json(*communication) : Json()},
       {"median_operator_error", comparison.error_json(median_error(rows))},
       {"end", to_string(record.end)},
       {"steps", record.steps},
       {"asked_steps", record.asked_steps},
       {"skipped_steps", record.skipped_steps},
       {"figures", figures},
       {"message_order_equal",
        has_order(record) ? Json(timeline.issued == record.issued) : Json()}});
}

}  // namespace

Verb compare_verb() {
  const auto arguments = std::make_shared<CompareArguments>();
  CompareArguments& a = *arguments;
  return {.path = "compare",
          .text = "Predicted beside measured",
          .examples =
              "Examples:\n  sextant compare plan.json run\n  sextant compare plan.json run --json",
          .options =
              {
                  {"plan", &a.plan, "plan file", true},
                  {"run", &a.run,
                   "folder that `run --out` wrote, or file that `run --record` wrote", true},
                  {"--trace", &a.trace,
                   "of a recording: plan and run in one Chrome trace, side by side"},
              },
          .action = [arguments](const CommonOptions& common, Console& console) {
            run_compare(*arguments, common, console);
          }};
}

}  // namespace sextant
