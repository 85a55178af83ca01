// The processes of a run end their steps together, or none of them does.
#include "cli/training/run_steps.h"

#include "cli/training/launch_recording.h"
#include "cli/training/run_exchange.h"
#include "cli/training/run_progress.h"
#include "cli/training/run_results.h"
#include "cli/training/watched_work.h"
#include "core/base/error.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <utility>

namespace sextant {
namespace {

// A failure of ranks, with what was under way behind its first line.
Error with_stuck(const Error& error, const std::vector<std::string>& stuck) {
  constexpr std::size_t kMostLines = 24;
  if (error.code() != ErrorCode::kRankFailed || stuck.empty()) return error;
  std::string text = error.what();
  for (std::size_t i = 0; i < std::min(stuck.size(), kMostLines); ++i) text += "\n  " + stuck[i];
  if (stuck.size() > kMostLines)
    text += fmt::format("\n  and {} more queues", stuck.size() - kMostLines);
  return {error.code(), text, error.hints()};
}

RecordingHeader recording_header(const RunSetup& setup) {
  return {.plan_hash = setup.graph.header.plan_hash,
          .strategy = to_string(setup.planned.plan.strategy),
          .devices = setup.devices,
          .ranks = static_cast<std::int64_t>(setup.graph.ranks.size()),
          .steps = setup.arguments.steps,
          .warm_up_steps = setup.warm_up_steps(),
          .room = setup.room};
}

// All steps, recorded where that is asked for.
Trained run_steps(const RunSetup& setup, TrainingHost& training, RunDevices& devices) {
  const std::int64_t steps = setup.steps(), first = setup.start.step();
  TimedHostActors host(training, first + setup.warm_up_steps());
  Trained trained;
  if (setup.arguments.record.empty()) {
    trained.issued = run_all(setup.graph, devices.devices(), host, steps, {.first_step = first},
                             setup.checkpoints.boundaries());
  } else {
    LaunchRecording recording(devices, host);
    trained.issued = run_all(setup.graph, recording.devices(), recording.host(), steps);
    trained.recording = recording.text(recording_header(setup), setup.processes);
  }
  trained.data = host.times(setup.graph);
  return trained;
}

}  // namespace

std::optional<Trained> train_steps(const RunSetup& setup, TrainingHost& host,
                                   std::unique_ptr<RunDevices> devices, RunRecorder& recorder,
                                   Console& console) {
  const std::int64_t steps = setup.steps();
  const std::int64_t per_step = launches_per_step(setup.graph, devices->devices());
  const auto keep = [&](RunEnd end) {
    if (end == RunEnd::kInterrupted || recorder.num_steps() > 0)
      keep_unfinished(setup, recorder.steps(), end, console);
  };
  Trained trained;
  const auto work = [&] {
    MetricsWay metrics(setup.processes, host, recorder, steps,
                       [&] { setup.checkpoints.require_sound(); });
    try {
      trained = run_steps(setup, host, *devices);
      metrics.finish();
      setup.checkpoints.finish();
    } catch (const Error& error) {
      if (const std::optional<Error> known = setup.checkpoints.common_failure())
        setup.processes.together([&] { throw Error(*known); });
      // What has come is all that comes.
      if (setup.processes.are_several()) devices->abort(error.what());
      throw with_stuck(error, devices->stuck());
    }
    trained.issued = gather_hashes(setup.processes, std::move(trained.issued));
    trained.loaded_bytes =
        gather_loaded_bytes(setup.processes, host, setup.graph.ranks.size(), steps);
  };
  const std::exception_ptr failure = do_watched(
      devices, work,
      [&] { return run_text(*devices, per_step, steps, recorder, setup.start.step()); }, keep,
      setup.processes, console);
  if (!failure) return trained;
  if (setup.processes.is_interrupted()) return std::nullopt;
  keep(RunEnd::kFailed);
  std::rethrow_exception(failure);
}

}  // namespace sextant
