// `sextant compare`: what was predicted beside what was measured.
#include "backends/cpu/machine_load.h"
#include "cli/run_record.h"
#include "cli/verbs.h"
#include "core/check.h"
#include "core/json_reader.h"
#include "core/quantile.h"
#include "simulator/simulate.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// Predicted seconds of one step, mean over ranks.
struct Predicted {
  // Of every run, and of every part of a run that a device may have timed by itself.
  std::map<std::string, double> operators;
  std::map<std::string, double> kinds;
};

void add_actors(const PhysicalGraph& graph, const CostModel& cost, Rank rank, RunId id,
                double share, Predicted& predicted) {
  const Run& run = graph.program_of(rank).order[id.index()];
  const Block& block = graph.block_of(graph.program_of(rank).instances[run.instance.index()]);
  const std::int32_t end = run.first_actor + run.num_actors;
  for (std::int32_t first = run.first_actor; first < end; ++first) {
    double seconds = 0;
    for (std::int32_t last = first; last < end; ++last) {
      const Actor& actor = block.actors[static_cast<std::size_t>(last)];
      const double one = to_seconds(cost.duration(actor.work)) * share;
      seconds += one;
      if (last == first) predicted.kinds[actor.kind] += one;
      if (last - first + 1 < run.num_actors)
        predicted.operators[run_name(graph, rank, id, first, last - first + 1)] += seconds;
    }
  }
}

Predicted predict(const PhysicalGraph& graph, const CostModel& cost, const Timeline& timeline) {
  Predicted predicted;
  const double share = 1.0 / static_cast<double>(timeline.ranks.size());
  for (const RankTimeline& rank : timeline.ranks) {
    for (const TimedRun& run : rank.runs) {
      const double seconds = to_seconds(run.end - run.begin) * share;
      predicted.operators[run_name(graph, rank.rank, run.run)] += seconds;
      const Run& entry = graph.program_of(rank.rank).order[run.run.index()];
      const Block& block =
          graph.block_of(graph.program_of(rank.rank).instances[entry.instance.index()]);
      const Actor& first = block.actors[static_cast<std::size_t>(entry.first_actor)];
      if (first.communication)
        predicted.kinds[first.kind] += seconds;
      else
        add_actors(graph, cost, rank.rank, run.run, share, predicted);
    }
  }
  return predicted;
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

// Of the rows that were measured: half of them are nearer.
double median_error(const std::vector<OperatorRow>& rows) {
  std::vector<double> errors;
  for (const OperatorRow& row : rows)
    if (row.measured_s > 0)
      errors.push_back(std::abs(relative_error(row.predicted_s, row.measured_s)));
  return errors.empty() ? 0 : median(errors);
}

// Measured zero: nothing to be relative to.
std::string error_text(double predicted, double measured) {
  return measured > 0 ? fmt::format("{:+.0f} %", 100 * relative_error(predicted, measured)) : "n/a";
}

void add_row(Table& table, const OperatorRow& row) {
  table.add({row.name, seconds_text(row.predicted_s), seconds_text(row.measured_s),
             error_text(row.predicted_s, row.measured_s)});
}

Json rows_json(const std::vector<OperatorRow>& rows) {
  Json json = Json::array();
  for (const OperatorRow& row : rows)
    json.push_back(
        {{"name", row.name}, {"predicted_s", row.predicted_s}, {"measured_s", row.measured_s}});
  return json;
}

}  // namespace

void run_compare(const CompareArguments& arguments, const CommonOptions&, Console& console) {
  JobArguments job;
  job.plan_or_model = arguments.plan;
  require(is_plan_file(job.plan_or_model), ErrorCode::kBadInput, "{}: not a plan file",
          job.plan_or_model);
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
  const Predicted predicted = predict(graph, *planned.cost, timeline);
  const auto rows = operator_rows(predicted.operators, record.operator_time_s);
  const auto kinds = operator_rows(predicted.kinds, record.kind_time_s);
  for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 12); ++i) add_row(table, rows[i]);
  console.say(table.text());
  if (!kinds.empty()) {
    Table by_kind({"operator kind", "predicted", "measured", "error"});
    for (const OperatorRow& row : kinds) add_row(by_kind, row);
    console.say(by_kind.text());
  }
  if (!rows.empty())
    console.say(fmt::format("median error of {} operators: {:.0f} %", rows.size(),
                            100 * median_error(rows)));
  if (rows.empty()) console.say("no times per operator: run with --profile 3 to measure them");
  if (const OthersLoad load{record.others_share, 0}; !load.is_quiet())
    console.say(busy_text(load) + " during the run: measured times are too long");
  console.say(fmt::format("issue order of all {} ranks over {} steps: {}", graph.ranks.size(),
                          record.steps, order_equal ? "equal" : "DIFFERENT"));
  console.say(fmt::format(
      "figures of {} are {}: see sextant cluster show {}", planned.job.cluster.name,
      to_string(planned.job.cluster.device.matmul_efficiency.provenance), planned.plan.cluster));
  console.document("compare", {{"predicted_step_time_s", predicted_s},
                               {"measured_step_time_s", record.step_time_s},
                               {"step_error", relative_error(predicted_s, record.step_time_s)},
                               {"per_operator", rows_json(rows)},
                               {"per_kind", rows_json(kinds)},
                               {"median_operator_error", median_error(rows)},
                               {"message_order_equal", order_equal}});
}

}  // namespace sextant
