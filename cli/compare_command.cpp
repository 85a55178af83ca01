// `sextant compare`: what was predicted beside what was measured.
#include "cli/run_record.h"
#include "cli/verbs.h"
#include "core/check.h"
#include "core/json_reader.h"
#include "simulator/simulate.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// Mean over ranks, of one step.
std::map<std::string, double> predicted_operators(const PhysicalGraph& graph,
                                                  const Timeline& timeline) {
  std::map<std::string, double> seconds;
  for (const RankTimeline& rank : timeline.ranks)
    for (const TimedRun& run : rank.runs)
      seconds[run_name(graph, rank.rank, run.run)] +=
          to_seconds(run.end - run.begin) / static_cast<double>(timeline.ranks.size());
  return seconds;
}

struct OperatorRow {
  std::string name;
  double predicted_s = 0, measured_s = 0;
};

// Operators that both sides know, the longest first.
std::vector<OperatorRow> operator_rows(const std::map<std::string, double>& predicted,
                                       const std::map<std::string, double>& measured) {
  std::vector<OperatorRow> rows;
  for (const auto& [name, seconds] : measured) {
    const auto found = predicted.find(name);
    if (found != predicted.end()) rows.push_back({name, found->second, seconds});
  }
  std::stable_sort(rows.begin(), rows.end(), [](const OperatorRow& a, const OperatorRow& b) {
    return a.measured_s > b.measured_s;
  });
  return rows;
}

std::string seconds_text(double seconds) { return to_text(duration_from_seconds(seconds)); }

double relative_error(double predicted, double measured) { return predicted / measured - 1; }

// Measured zero: nothing to be relative to.
std::string error_text(double predicted, double measured) {
  return measured > 0 ? fmt::format("{:+.0f} %", 100 * relative_error(predicted, measured)) : "n/a";
}

}  // namespace

void run_compare(const CompareArguments& arguments, const CommonOptions&, Console& console) {
  JobArguments job;
  job.plan_or_model = arguments.plan;
  PlannedJob planned = load_planned_job(job);
  const std::string file = arguments.run + "/run.json";
  const RunRecord record = run_record_from_json(read_text_file(file), file);
  require(record.step_time_s > 0, ErrorCode::kBadInput,
          "{}: {} steps leave no step time after {} warm-up steps", file, record.steps,
          record.warm_up_steps);
  const PhysicalGraph graph = physical_graph(planned);
  require(record.plan_hash == graph.header.plan_hash, ErrorCode::kBadInput,
          "{} was made with plan {}, {} is plan {}", file, record.plan_hash, arguments.plan,
          graph.header.plan_hash);
  SimulateOptions options;
  options.mode = SimulationMode::kStep;
  options.folded = false;
  options.steps = record.steps;
  const Timeline timeline = simulate_timeline(graph, *planned.cost, *planned.network, options);
  const double predicted_s = to_seconds(timeline.step_time());
  const bool order_equal = timeline.issued == record.issued;

  Table table({"", "predicted", "measured", "error"});
  table.add({"step", seconds_text(predicted_s), seconds_text(record.step_time_s),
             error_text(predicted_s, record.step_time_s)});
  const auto rows = operator_rows(predicted_operators(graph, timeline), record.operator_time_s);
  Json per_operator = Json::array();
  for (const OperatorRow& row : rows) {
    per_operator.push_back(
        {{"name", row.name}, {"predicted_s", row.predicted_s}, {"measured_s", row.measured_s}});
    if (per_operator.size() <= 12)
      table.add({row.name, seconds_text(row.predicted_s), seconds_text(row.measured_s),
                 error_text(row.predicted_s, row.measured_s)});
  }
  console.say(table.text());
  if (rows.empty()) console.say("no times per operator: run with --profile 3 to measure them");
  console.say(fmt::format("issue order of all {} ranks over {} steps: {}", graph.ranks.size(),
                          record.steps, order_equal ? "equal" : "DIFFERENT"));
  console.say(fmt::format(
      "figures of {} are {}: see sextant cluster show {}", planned.job.cluster.name,
      to_string(planned.job.cluster.device.matmul_efficiency.provenance), planned.plan.cluster));
  console.document("compare", {{"predicted_step_time_s", predicted_s},
                               {"measured_step_time_s", record.step_time_s},
                               {"step_error", relative_error(predicted_s, record.step_time_s)},
                               {"per_operator", per_operator},
                               {"message_order_equal", order_equal}});
}

}  // namespace sextant
