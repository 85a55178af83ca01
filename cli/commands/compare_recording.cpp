// `sextant compare PLAN RECORDING`: where a recorded run left the plan.
#include "cli/communication_report.h"
#include "cli/runs/predicted_times.h"
#include "cli/runs/run_record.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "io/gzip.h"
#include "simulator/modes/simulate.h"
#include "simulator/recordings/divergence.h"
#include "simulator/recordings/recording.h"
#include "simulator/recordings/replay.h"
#include "simulator/reports/chrome_trace.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// Of the predicted step: what is nearer counts as on time.
constexpr double kOnTime = 0.05;
constexpr std::size_t kMostKinds = 16, kMostLaunches = 8;

// A step of the plan and the recorded one of median time.
struct Steps {
  const PhysicalGraph& graph;
  Simulation predicted;
  Timeline plan;
  Duration recorded_time;
  ReplayedRun run;
};

Steps steps_of(const PlannedJob& planned, const PhysicalGraph& graph, const Recording& recording) {
  SimulateOptions options;
  options.folded = false;
  options.keep_slices = true;
  Timeline plan = simulate_timeline(graph, *planned.cost, *planned.network, options);
  Simulation predicted = simulation_of(graph, *planned.cost, plan, options);
  return {graph, std::move(predicted), std::move(plan), median_step_time(recording),
          replay(graph, recording)};
}

std::string error_text(Duration predicted, Duration recorded) {
  if (recorded <= Duration()) return "n/a";
  return fmt::format("{:+.0f} %", 100 * (to_seconds(predicted) / to_seconds(recorded) - 1));
}

void add_rows(TextTable& table, const std::vector<LaunchTimes>& all, std::size_t most) {
  const auto add = [&table](const std::string& name, Duration predicted, Duration recorded) {
    table.add({name, to_text(predicted), to_text(recorded), error_text(predicted, recorded)});
  };
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i) {
    const LaunchTimes& one = all[i];
    add(one.name, one.predicted, one.recorded);
    if (one.predicted_wait > Duration() || one.recorded_wait > Duration())
      add(one.name + ": waiting for members", one.predicted_wait, one.recorded_wait);
  }
}

void say_times(const Steps& steps, const std::vector<LaunchTimes>& kinds,
               const std::vector<LaunchTimes>& launches, const Console& console) {
  TextTable by_kind({"per step and rank", "predicted", "recorded", "error"});
  by_kind.add({"step", to_text(steps.plan.step_time()), to_text(steps.recorded_time),
               error_text(steps.plan.step_time(), steps.recorded_time)});
  add_rows(by_kind, kinds, kMostKinds);
  console.say(by_kind.text());
  TextTable by_launch({"the longest launches", "predicted", "recorded", "error"});
  add_rows(by_launch, launches, kMostLaunches);
  console.say(by_launch.text());
}

CommunicationComparison communication_of(const PlannedJob& planned, const Steps& steps) {
  PredictedCommunication predicted = predicted_communication(planned, steps.graph, steps.plan);
  const CommunicationUse measured =
      communication_use(steps.graph, std::span(&steps.run.timeline, 1),
                        [&](Rank rank, RunId run) { return run_name(steps.graph, rank, run); });
  return {std::move(predicted.use), measured, std::move(predicted.mode),
          [](double first, double second) {
            return error_text(duration_from_seconds(first), duration_from_seconds(second));
          }};
}

// "3 ms", or "-2 ms" of what began before the step before was over.
std::string since_text(Time since) {
  return since < Time() ? "-" + to_text(Time() - since) : to_text(since);
}

std::string launch_name(const Steps& steps, const Divergence& found) {
  return fmt::format("rank {}, {} (run {})", found.rank.value,
                     run_name(steps.graph, found.rank, found.run), found.run.value);
}

void say_divergence(const Steps& steps, const std::optional<Divergence>& found,
                    const Console& console) {
  if (!found)
    return console.say(
        fmt::format("every launch of step {} ends within {:.0f} % of the predicted "
                    "step of when the plan has it",
                    steps.run.step, 100 * kOnTime));
  const Duration late = found->late();
  console.say(fmt::format(
      "step {} leaves the plan at {}: {} to {}, predicted {} to {}, {} {}, because of {}",
      steps.run.step, launch_name(steps, *found), since_text(found->recorded_begin),
      since_text(found->recorded_end), since_text(found->predicted_begin),
      since_text(found->predicted_end), to_text(late > Duration() ? late : Duration() - late),
      late > Duration() ? "late" : "early", to_string(found->cause)));
}

Json divergence_json(const Steps& steps, const std::optional<Divergence>& found) {
  if (!found) return Json();
  return {{"rank", found->rank.value},
          {"run", found->run.value},
          {"name", run_name(steps.graph, found->rank, found->run)},
          {"cause", to_string(found->cause)},
          {"predicted_s", {to_seconds(found->predicted_begin), to_seconds(found->predicted_end)}},
          {"recorded_s", {to_seconds(found->recorded_begin), to_seconds(found->recorded_end)}}};
}

Json times_json(const std::vector<LaunchTimes>& all, const char* what) {
  Json json = Json::array();
  for (const LaunchTimes& kind : all)
    json.push_back({{what, kind.name},
                    {"launches", kind.launches},
                    {"predicted_s", to_seconds(kind.predicted)},
                    {"recorded_s", to_seconds(kind.recorded)},
                    {"predicted_wait_s", to_seconds(kind.predicted_wait)},
                    {"recorded_wait_s", to_seconds(kind.recorded_wait)}});
  return json;
}

// Later, by so much: slices count from the first begin of their step.
void shift(std::vector<TraceSlice>& slices, Duration later) {
  for (TraceSlice& slice : slices) {
    slice.begin += later;
    slice.end += later;
  }
}

// The ends of the steps before stand above each other.
void write_both(const Steps& steps, const std::string& file) {
  std::vector<TraceSlice> plan = steps.predicted.slices;
  std::vector<TraceSlice> run = run_slices(steps.graph, steps.run.timeline);
  const Duration of_plan = steps.plan.origin() - steps.plan.first_begin();
  const Duration of_run = steps.run.timeline.origin() - steps.run.timeline.first_begin();
  const Duration latest = std::max(of_plan, of_run);
  shift(plan, latest - of_plan);
  shift(run, latest - of_run);
  const std::string trace =
      to_chrome_trace(std::array{NamedSlices{"plan", plan}, NamedSlices{"run", run}});
  write_file_whole(file, file.ends_with(".gz") ? gzip(trace) : trace);
}

}  // namespace

void require_recorded_plan(const RecordingHeader& header, const PhysicalGraph& graph,
                           const std::string& file) {
  require(header.plan_hash == graph.header.plan_hash, ErrorCode::kBadInput,
          "{} was made with plan {} ({}), this is plan {}", file, header.plan_hash, header.strategy,
          graph.header.plan_hash);
}

void run_compare_recording(const CompareArguments& arguments, const PlannedJob& planned,
                           Console& console) {
  require_different_files({{"the plan", arguments.plan},
                           {"the recording", arguments.run},
                           {"--trace", arguments.trace}});
  require(!arguments.trace.ends_with(".gz") || can_gzip(), ErrorCode::kUsage,
          "--trace {}: this sextant was built without zlib", arguments.trace);
  const Recording recording = recording_from_text(read_text_file(arguments.run), arguments.run);
  const PhysicalGraph graph = physical_graph(planned, recording.header.room);
  require_recorded_plan(recording.header, graph, arguments.run);
  const std::optional<std::string> left = order_difference(graph, recording);
  if (left) {
    console.say(fmt::format("issue order: the run leaves the plan at {}", *left));
    console.document("compare", {{"message_order_equal", false}, {"first_difference", *left}});
    return;
  }
  const Steps steps = steps_of(planned, graph, recording);
  const auto times_by = [&](const LaunchName& name) {
    return launch_times(graph, steps.plan, steps.run.timeline, name);
  };
  const std::vector<LaunchTimes> kinds =
      times_by([&](Rank rank, RunId run) { return kind_of_launch(graph, rank, run); });
  const std::vector<LaunchTimes> launches =
      times_by([&](Rank rank, RunId run) { return run_name(graph, rank, run); });
  const CommunicationComparison communication = communication_of(planned, steps);
  const auto divergence = first_divergence(steps.plan, steps.run.timeline, kOnTime);
  if (!arguments.trace.empty()) write_both(steps, arguments.trace);
  say_times(steps, kinds, launches, console);
  say(communication, console);
  console.say(fmt::format("issue order of {} over {}: equal; messages: {}",
                          counted(graph.ranks.size(), "rank"),
                          counted(recording.header.steps, "step"),
                          steps.run.waits.launches == 0 ? "equal" : steps.run.waits.first));
  say_divergence(steps, divergence, console);
  if (!arguments.trace.empty())
    console.say(fmt::format("plan and run in {}; open it with Perfetto or chrome://tracing",
                            arguments.trace));
  console.document("compare", {{"predicted_step_time_s", to_seconds(steps.plan.step_time())},
                               {"measured_step_time_s", to_seconds(steps.recorded_time)},
                               {"step", steps.run.step},
                               {"per_kind", times_json(kinds, "kind")},
                               {"per_operator", times_json(launches, "name")},
                               {"communication", to_json(communication)},
                               {"message_order_equal", steps.run.waits.launches == 0},
                               {"first_divergence", divergence_json(steps, divergence)}});
}

}  // namespace sextant
