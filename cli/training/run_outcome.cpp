// The machine's load is that of the training alone: what profiles and writes comes behind it.
#include "cli/training/run_outcome.h"

#include "backends/cpu/yardstick.h"
#include "cli/training/run_data.h"
#include "cli/training/run_exchange.h"
#include "cli/training/run_profile.h"
#include "cli/training/run_report.h"
#include "cli/training/run_results.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// `kept`: the record of the outcome, or what is known of it when a signal comes.
void keep_outcome(const RunSetup& setup, const RunOutcome& outcome, const RunRecord& kept,
                  const Console& console) {
  say_result(kept, setup.planned, outcome.steps, console);
  if (outcome.load && !outcome.load->is_quiet())
    console.say(busy_text(*outcome.load) +
                " during the run: steps took longer than on a quiet one");
  if (outcome.trained && kept.end != RunEnd::kComplete)
    console.say(
        "all steps are trained; times of operators are missing, because the profile did not end");
  say_profile(kept, console);
  if (outcome.trained) say_data(outcome.trained->data, console);
  setup.checkpoints.say(console);
  write_results(setup, outcome.steps, kept, console);
}

// What the first process does at the end.
void say_end(const RunSetup& setup, const RunOutcome& outcome, const Console& console) {
  const RunArguments& arguments = setup.arguments;
  keep_outcome(setup, outcome, outcome.record, console);
  if (outcome.trained)
    write_recording(arguments, outcome.trained->recording, console);
  else if (!arguments.record.empty())
    console.note(fmt::format("--record {}: nothing is written of a run that was interrupted",
                             arguments.record));
  require_trained(outcome.steps, outcome.record);
  Json document = Json::parse(to_json_text(outcome.record));
  if (!arguments.checkpoint.empty()) document["checkpoints"] = setup.checkpoints.document();
  if (outcome.trained) add_data(outcome.trained->data, arguments, document);
  console.document("run", document);
}

}  // namespace

RunOutcome trained_outcome(const RunSetup& setup, TrainingHost& host,
                           std::unique_ptr<RunDevices> devices, RunRecorder& recorder,
                           Console& console) {
  const bool on_processors = setup.arguments.backend == "cpu";
  const LoadWatch watch;
  std::optional<SpeedWatch> speed;
  if (on_processors && setup.processes.is_first()) speed.emplace();
  RunOutcome outcome;
  outcome.trained = train_steps(setup, host, std::move(devices), recorder, console);
  const std::optional<Trained>& trained = outcome.trained;
  outcome.steps = recorder.steps();
  if (trained) outcome.steps.lines = with_loaded_bytes(outcome.steps.lines, trained->loaded_bytes);
  outcome.record =
      make_record(setup, outcome.steps, trained ? RunEnd::kComplete : RunEnd::kInterrupted);
  if (trained) outcome.record.issued = trained->issued;
  // The other processes of a run are no others.
  if (on_processors && !setup.processes.are_several()) outcome.load = watch.load();
  if (outcome.load) outcome.record.others_share = outcome.load->others;
  if (speed) outcome.record.yardstick_s = speed->mean_seconds();
  return outcome;
}

void add_profile(const RunSetup& setup, const SampleData* data, RunOutcome& outcome,
                 Console& console) {
  if (!outcome.trained || setup.arguments.profile <= 0) return;
  // A copy: what profiles is still at work on the record when a signal comes.
  const auto keep_trained = [&setup, &outcome, &console, trained = outcome.record](RunEnd end) {
    RunRecord kept = trained;
    kept.end = end;
    keep_outcome(setup, outcome, kept, console);
    if (end == RunEnd::kInterrupted) console.document("run", Json::parse(to_json_text(kept)));
  };
  profile_steps(setup, data, outcome.record, keep_trained, console);
}

void end_run(const RunSetup& setup, const RunOutcome& outcome, const Console& console) {
  const auto end = [&] {
    if (setup.processes.is_first()) say_end(setup, outcome, console);
  };
  // After a signal the others may be gone.
  if (outcome.record.end == RunEnd::kInterrupted) return end();
  setup.processes.agree_after(end);
  setup.processes.note_done();
}

}  // namespace sextant
