// `sextant simulate PLAN --replay FILE`: a recorded run on the virtual clock.
#include "cli/dry_run.h"
#include "cli/sections/picture_section.h"
#include "cli/verbs.h"
#include "cli/workflow.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "simulator/modes/simulate.h"
#include "simulator/recordings/host_slices.h"
#include "simulator/recordings/recording.h"
#include "simulator/recordings/replay.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// What varies a simulation has no meaning for what happened.
void require_plain(const SimulateArguments& arguments) {
  const std::pair<bool, const char*> others[] = {
      {arguments.mode != "tape", "--mode"},        {!arguments.what_if.empty(), "--what-if"},
      {!arguments.sweep.empty(), "--sweep"},       {!arguments.plot.empty(), "--plot"},
      {!arguments.routing.empty(), "--routing"},   {!arguments.stragglers.empty(), "--straggler"},
      {!arguments.failures.empty(), "--failures"}, {arguments.jitter != 0, "--jitter"},
      {arguments.samples != 0, "--samples"},       {arguments.links, "--links"},
      {arguments.operators, "--operators"},        {arguments.memory, "--memory"},
      {arguments.critical_path, "--critical-path"}};
  for (const auto& [is_given, option] : others)
    require(!is_given, ErrorCode::kUsage,
            "{} with --replay: a recording is repeated as it happened; --trace and --timeline go "
            "with it",
            option);
}

struct Replayed {
  Duration recorded;  // median step
  ReplayedRun run;
  Duration at_once;  // mean step without start delays
  Simulation simulation;
  Duration predicted;
};

Replayed replayed(const PlannedJob& planned, const PhysicalGraph& graph,
                  const Recording& recording) {
  Replayed all;
  all.recorded = median_step_time(recording);
  all.run = replay(graph, recording);
  all.at_once = mean_step_time(replay(graph, recording, {.start_delays = false}).step_end,
                               recording.header.warm_up_steps);
  const SimulateOptions options;
  all.simulation = simulation_of(graph, *planned.cost, all.run.timeline, options);
  all.simulation.slices = run_slices(graph, all.run.timeline);
  add_host_slices(recording, all.run.timeline, all.simulation.slices);
  all.predicted = simulate_timeline(graph, *planned.cost, *planned.network, options).step_time();
  return all;
}

void say(const Replayed& all, const Recording& recording, const std::string& file,
         const Console& console) {
  console.say(fmt::format("{}: {} of {} on {}, {}", file,
                          counted(static_cast<std::int64_t>(recording.launches.size()), "launch"),
                          counted(recording.header.steps, "step"), recording.header.devices,
                          recording.header.strategy));
  const std::int64_t warm_up = recording.header.warm_up_steps;
  TextTable table({"step", "time"});
  table.add({fmt::format("median, which is step {}", all.run.step), to_text(all.recorded)});
  table.add({"the same, repeated on the virtual clock", to_text(all.run.timeline.step_time())});
  table.add({"mean", to_text(mean_step_time(all.run.step_end, warm_up))});
  table.add({"mean without start delays", to_text(all.at_once)});
  table.add({"predicted", to_text(all.predicted)});
  console.say(table.text());
  console.say(parts_table(all.simulation.parts, to_seconds(all.simulation.step_time)).text());
  const auto say_contradiction = [&](const Contradiction& found, const char* what) {
    if (found.launches > 0)
      console.say(fmt::format("{} {}, the first: {}", counted(found.launches, "launch"), what,
                              found.first));
  };
  say_contradiction(all.run.early, "began before its waits were over");
  say_contradiction(all.run.waits, "waited for other launches than the actors do");
}

Json contradiction_json(const Contradiction& found) {
  return {{"launches", found.launches}, {"first", found.first}};
}

Json document_of(const Replayed& all, const Recording& recording) {
  Json times = Json::array();
  for (const Duration time : step_times(recording)) times.push_back(to_seconds(time));
  return {{"strategy", recording.header.strategy},
          {"mode", "replay"},
          {"step", all.run.step},
          {"step_time_s", to_seconds(all.run.timeline.step_time())},
          {"recorded_step_time_s", to_seconds(all.recorded)},
          {"recorded_step_times_s", times},
          {"without_start_delays_s", to_seconds(all.at_once)},
          {"predicted_step_time_s", to_seconds(all.predicted)},
          {"parts_s", parts_json(all.simulation.parts)},
          {"launches", recording.launches.size()},
          {"host_acts", recording.host_acts.size()},
          {"began_early", contradiction_json(all.run.early)},
          {"other_waits", contradiction_json(all.run.waits)}};
}

}  // namespace

void run_replay(const SimulateArguments& arguments, const CommonOptions& common, Console& console) {
  require_plain(arguments);
  require_different_files({{"the plan", arguments.job.plan_or_model},
                           {"--cluster", arguments.job.cluster},
                           {"--replay", arguments.replay},
                           {"--trace", arguments.trace},
                           {"--timeline", arguments.timeline}});
  const PlannedJob planned = load_planned_job(arguments.job);
  const Recording recording =
      recording_from_text(read_text_file(arguments.replay), arguments.replay);
  const ExpandedGraph expanded = expanded_graph(planned, recording.header.room);
  require_recorded_plan(recording.header, expanded.graph(), arguments.replay);
  if (common.dry_run)
    return say_dry_run("simulate", fmt::format("repeat the run of {}", arguments.replay),
                       {arguments.trace, arguments.timeline}, console);
  const Replayed all = replayed(planned, expanded.graph(), recording);
  // Before anything is said: a file that cannot be written is an error.
  if (!arguments.trace.empty() || !arguments.timeline.empty())
    write_pictures({arguments.trace, arguments.timeline, {"recorded, not simulated"}}, planned,
                   expanded, all.run.timeline, all.simulation);
  say(all, recording, arguments.replay, console);
  console.document("simulate", document_of(all, recording));
}

}  // namespace sextant
