// `sextant run`: trains with a plan, on CPU ranks in this process or in several, or on GPUs.
#include "actor/runtime.h"
#include "backends/cpu/machine_load.h"
#include "backends/cpu/yardstick.h"
#include "cli/dry_run.h"
#include "cli/launched.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/run_processes.h"
#include "cli/runs/run_record.h"
#include "cli/signals.h"
#include "cli/training/launch_recording.h"
#include "cli/training/run_backend.h"
#include "cli/training/run_checkpoints.h"
#include "cli/training/run_exchange.h"
#include "cli/training/run_progress.h"
#include "cli/training/run_recorder.h"
#include "cli/training/run_report.h"
#include "cli/training/run_start.h"
#include "cli/training/run_weights.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "cli/work_watch.h"
#include "compiler/expand/data_actors.h"
#include "compiler/memory/memory_report.h"
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/base/quantile.h"
#include "core/text/counted_text.h"
#include "core/text/json_reader.h"
#include "experiments/data_pipeline/data_times.h"
#include "io/open_data.h"
#include "io/training_host.h"
#include "simulator/recordings/stamped_steps.h"
#include "simulator/steps/communication_use.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// The first steps fill caches and page in memory. On a GPU the third is captured, and libraries
// load their code on the way.
std::int64_t warm_up_steps(const RunArguments& arguments) {
  return arguments.backend == "cuda" ? 5 : 2;
}

// The user's data; needed where the model reads tokens, useless where it reads neither tokens nor
// images. Nothing for `random`: then tokens are drawn like every other input.
std::unique_ptr<SampleData> opened_data(const PhysicalGraph& graph, const DataOptions& options) {
  const bool has_tokens = has_input(graph, "tokens"), has_images = has_input(graph, "images");
  require(
      !options.path.empty() || !has_tokens, ErrorCode::kUsage,
      "--data is needed: a text or token file or a folder of them, or `random` for uniform ids");
  const bool is_of_file = !options.path.empty() && options.path != kRandomData;
  require(is_of_file || (options.format.empty() && options.order.empty()), ErrorCode::kUsage,
          "--data-format and --data-order are of a file; there is none");
  require(options.path.empty() || has_tokens || (has_images && is_of_file), ErrorCode::kUsage,
          "--data {}: this model reads no tokens; leave it out", options.path);
  if (!is_of_file) return nullptr;
  std::unique_ptr<SampleData> data = open_data(options);
  require(reads(graph, *data), ErrorCode::kUsage,
          "--data {0}: holds {1}, and this model reads no {1} but {2}", options.path,
          data->main_input(), has_tokens ? "tokens" : "images");
  require_enough(graph, *data);
  return data;
}

void say_synthetic_inputs(const PhysicalGraph& graph, const SampleData* data, Bytes room,
                          const Console& console) {
  const std::vector<std::string> names = synthetic_inputs(graph, data);
  if (names.empty()) return;
  console.say("synthetic data for " + comma_list(names) + ": every step reads the same batch");
  const Bytes size = synthetic_bytes(graph, data);
  if (size > room)
    console.note(
        fmt::format("a batch of it takes {}, this machine has room for {} beside the "
                    "plan: what is beyond that is drawn anew in every step, which waits "
                    "for it",
                    to_text(size), to_text(room)));
}

// The part of the step that a stamp is of; for a whole run of several kinds there is no kind.
std::string kind_of(const PhysicalGraph& graph, Rank rank, const Stamp& stamp) {
  const Run& run = graph.program_of(rank).order[stamp.run];
  const Block& block = graph.block_of(graph.program_of(rank).instances[run.instance]);
  if (stamp.num_actors == 0 && run.num_actors > 1) return "";
  const std::int32_t actor = stamp.num_actors == 0 ? run.first_actor : stamp.first_actor;
  return block.actors[static_cast<std::size_t>(actor)].kind;
}

// What is known of a run before its first step.
struct RunSetup {
  const PlannedJob& planned;
  const PhysicalGraph& graph;
  const RunArguments& arguments;
  const CommonOptions& common;
  std::string devices;
  bool is_planned_device = true;
  Bytes room_for_data;
  std::optional<ArenaRoom> room;  // that arenas were given
  RunProcesses& processes;
  const RunStart& start;
  RunCheckpoints& checkpoints;

  std::int64_t steps() const { return arguments.steps - start.step(); }  // of this run
};

std::int64_t data_registers(const RunArguments& arguments) {
  return arguments.registers.value_or(kDefaultDataRegisters);
}

// The actors that make samples of `data`, if they are made in stages.
void add_data_actors_for(const SampleData* data, const RunArguments& arguments,
                         PhysicalGraph& graph) {
  const std::vector<std::string> kinds =
      data == nullptr ? std::vector<std::string>() : data->stage_kinds();
  require(!kinds.empty() || !arguments.registers, ErrorCode::kUsage,
          "--registers {}: registers of the actors that read, decode and augment images; there are "
          "none",
          arguments.registers.value_or(0));
  if (kinds.empty()) return;
  const std::int64_t registers = data_registers(arguments);
  require(registers >= 1 && registers <= kMostDataRegisters, ErrorCode::kUsage,
          "--registers {}: wanted 1 to {}", registers, kMostDataRegisters);
  add_data_actors(graph, data->main_input(), kinds, static_cast<std::int32_t>(registers));
}

TrainingHost training_host(const SampleData* data, const RunSetup& setup) {
  const std::uint64_t seed = setup.common.seed;
  const std::int64_t registers = data_registers(setup.arguments);
  return data == nullptr
             ? TrainingHost(seed, setup.room_for_data)
             : TrainingHost(*data, seed, setup.room_for_data, static_cast<std::int32_t>(registers));
}

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
  record.warm_up_steps = warm_up_steps(setup.arguments);
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

void add_times(const PhysicalGraph& graph, const std::vector<Device*>& devices, double share,
               RunRecord& record) {
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    if (devices[rank] == nullptr) continue;
    for (const Stamp& stamp : devices[rank]->stamps()) {
      if (stamp.step == 0) continue;
      const double seconds = to_seconds(stamp.end - stamp.begin) * share;
      const std::string name =
          stamp.num_actors == 0
              ? run_name(graph, Rank(rank), stamp.run)
              : run_name(graph, Rank(rank), stamp.run, stamp.first_actor, stamp.num_actors);
      record.operator_time_s[name] += seconds;
      record.kind_time_s[kind_of(graph, Rank(rank), stamp)] += seconds;
    }
  }
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

// A plan that is there already may be the one that runs.
void require_new_results(const CommonOptions& common, const Plan& plan) {
  std::vector<std::string> files = {"metrics.jsonl", "run.json"};
  const std::string path = common.out + "/plan.json";
  if (!common.out.empty() && std::filesystem::is_regular_file(path) &&
      read_text_file(path) != to_json_text(plan))
    files.emplace_back("plan.json");
  require_results_folder(common, files);
  if (!common.out.empty()) require_writable("--out", path);
}

void note_other_device(const RunArguments& arguments, const std::string& planned,
                       const std::string& devices, const Console& console) {
  console.note(fmt::format(
      "the plan is for {}, --backend {} runs it on {}: times and rates are of another device",
      planned, arguments.backend, devices));
}

// What a run that says nothing more would hide.
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

// What a signal or a failure leaves: the steps so far, as a whole record.
void keep_unfinished(const RunSetup& setup, const RunRecorder::Steps& steps, RunEnd end,
                     const Console& console) {
  const RunRecord record = make_record(setup, steps, end);
  say_result(record, setup.planned, steps, console);
  setup.checkpoints.say(console);
  write_results(setup, steps, record, console);
  if (end != RunEnd::kInterrupted) return;
  Json document = Json::parse(to_json_text(record));
  if (!setup.arguments.checkpoint.empty()) document["checkpoints"] = setup.checkpoints.document();
  console.document("run", document);
}

// The last words of a process that a signal ends, and its end where not the user has ended the run.
void leave_after_signal(const std::function<void(RunEnd)>& last_words, RunProcesses& processes,
                        Console& console) {
  const bool has_failed = processes.has_failed();
  console.end_progress();
  if (last_words) last_words(has_failed ? RunEnd::kFailed : RunEnd::kInterrupted);
  if (has_failed) processes.end_failed();
}

// Ends what `devices` do, which may take as long as a kernel, and then themselves. A signal leaves
// `last_words`. What ended the work before its end is returned.
template <typename Work>
std::exception_ptr watched(std::unique_ptr<RunDevices>& devices, const Work& work,
                           const std::function<std::string()>& text,
                           const std::function<void(RunEnd)>& last_words, RunProcesses& processes,
                           Console& console) {
  const auto leave = [&] { leave_after_signal(last_words, processes, console); };
  std::exception_ptr failure;
  {
    const WorkWatch watch({.show = [&] { console.progress(text()); },
                           .ask_to_end = [&] { devices->abort(processes.reason_of_signal()); },
                           .last_words = leave,
                           .grace_s = processes.grace_s()});
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  const WorkWatch watch(
      {.show = {}, .ask_to_end = {}, .last_words = leave, .grace_s = processes.grace_s()});
  devices.reset();
  console.end_progress();
  return failure;
}

// Work before the first step, of which nothing is kept: a signal leaves what was there before.
WorkWatch watch_preparation(std::string_view what, const std::function<void(RunEnd)>& last_words,
                            RunProcesses& processes, Console& console) {
  return WorkWatch(
      {.show = [text = ElapsedText(what), &console] { console.progress(text()); },
       .ask_to_end = [&processes] { processes.reason_of_signal(); },
       .last_words = [last_words, &processes,
                      &console] { leave_after_signal(last_words, processes, console); },
       .grace_s = processes.grace_s()});
}

PhysicalGraph compiled(const PlannedJob& planned, const std::optional<ArenaRoom>& room,
                       RunProcesses& processes, Console& console) {
  const WorkWatch watch = watch_preparation("compiling", {}, processes, console);
  PhysicalGraph graph = physical_graph(planned, room);
  require_fits(planned, graph);
  return graph;
}

void note_local_exchange(const RunArguments& arguments, const Console& console) {
  console.note(
      "ranks pull from each other (--collectives local): times and rates are of no network");
  if (arguments.graphs == "on")
    console.note("--graphs on has no effect: ranks that pull from each other meet in every step");
}

// Threads are inside a library that does not come back: no destructor may run.
[[noreturn]] void end_failed(const std::string& reason, bool json) {
  const int code = report_error(Error(ErrorCode::kRankFailed, reason), json);
  std::fflush(stdout);
  std::_Exit(code);
}

std::unique_ptr<RunDevices> prepared_devices(const RunSetup& setup, bool profile,
                                             const std::function<void(RunEnd)>& last_words,
                                             Console& console) {
  const WorkWatch watch =
      watch_preparation("preparing " + setup.devices, last_words, setup.processes, console);
  std::unique_ptr<RunDevices> devices;
  setup.processes.together([&] {
    devices = make_run_devices(
        setup.graph, setup.arguments, setup.common.seed, profile,
        {.notice = [&console](const std::string& text) { console.note(text); },
         .give_up =
             [&processes = setup.processes, json = setup.common.json](const std::string& reason) {
               if (processes.are_several()) processes.end(Error(ErrorCode::kRankFailed, reason));
               end_failed(reason, json);
             }},
        setup.processes);
  });
  return devices;
}

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

// What a run leaves that came to its end.
struct Trained {
  std::vector<IssueHash> issued;
  std::string recording;                                // with --record
  std::vector<std::vector<std::int64_t>> loaded_bytes;  // by step and rank
  DataTimes data;                                       // of the ranks of this process
};

RecordingHeader recording_header(const RunSetup& setup) {
  return {.plan_hash = setup.graph.header.plan_hash,
          .strategy = to_string(setup.planned.plan.strategy),
          .devices = setup.devices,
          .ranks = static_cast<std::int64_t>(setup.graph.ranks.size()),
          .steps = setup.arguments.steps,
          .warm_up_steps = warm_up_steps(setup.arguments),
          .room = setup.room};
}

// All steps, recorded where that is asked for.
Trained run_steps(const RunSetup& setup, TrainingHost& training, RunDevices& devices) {
  const std::int64_t steps = setup.steps(), first = setup.start.step();
  TimedHostActors host(training, first + warm_up_steps(setup.arguments));
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

void say_data(const DataTimes& times, const Console& console) {
  if (times.actors.empty()) return;
  TextTable table({"data actor", "an act", "busy"});
  for (const DataActorTime& actor : times.actors)
    table.add({actor.name, to_text(duration_from_seconds(actor.act_s)),
               fmt::format("{:.0f} %", 100 * actor.busy)});
  console.say(table.text());
  console.say(verdict_of(times).text);
}

void add_data(const DataTimes& times, const RunArguments& arguments, Json& document) {
  if (times.actors.empty()) return;
  document["data"] = to_json(times);
  document["data"]["registers"] = data_registers(arguments);
}

// Nothing when the user interrupted. The devices are gone when it returns: their memory is the
// profile's now.
std::optional<Trained> train(const RunSetup& setup, TrainingHost& host,
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
  const std::exception_ptr failure = watched(
      devices, work,
      [&] { return run_text(*devices, per_step, steps, recorder, setup.start.step()); }, keep,
      setup.processes, console);
  if (!failure) return trained;
  if (setup.processes.is_interrupted()) return std::nullopt;
  keep(RunEnd::kFailed);
  std::rethrow_exception(failure);
}

// Of the profiled steps, as every process can tell it.
CommunicationUse measured_communication(const RunSetup& setup,
                                        const std::vector<Device*>& devices) {
  const auto steps = stamped_steps(setup.graph, gather_stamps(setup.processes, devices));
  return communication_use(setup.graph, steps,
                           [&](Rank rank, RunId run) { return run_name(setup.graph, rank, run); });
}

// Extra steps with stamps; the first is warm-up. Seconds per step, mean over ranks. A signal in the
// middle or a failure keeps what was trained, without them.
void profile(const RunSetup& setup, const SampleData* data, RunRecord& record,
             const std::function<void(RunEnd)>& keep_trained, Console& console) {
  const std::int64_t steps = setup.arguments.profile + 1;
  std::exception_ptr failure;
  try {
    std::unique_ptr<RunDevices> world = prepared_devices(setup, true, keep_trained, console);
    TrainingHost host = training_host(data, setup);
    const std::int64_t per_step = launches_per_step(setup.graph, world->devices());
    const auto work = [&] {
      const std::vector<Device*> devices = world->devices();
      run_all(setup.graph, devices, host, steps);
      const double shares =
          static_cast<double>(setup.arguments.profile) * static_cast<double>(devices.size());
      add_times(setup.graph, devices, 1.0 / shares, record);
      gather_times(setup.processes, record);
      record.communication = measured_communication(setup, devices);
    };
    const auto text = [&] {
      const auto finished = world->finished_launches();
      return "profiling" + (finished ? ": " + launches_text(*finished, per_step, steps) : "");
    };
    failure = watched(world, work, text, keep_trained, setup.processes, console);
  } catch (...) {
    failure = std::current_exception();
  }
  if (!failure) return;
  const bool is_stopped = setup.processes.is_interrupted();
  record.end = is_stopped ? RunEnd::kInterrupted : RunEnd::kFailed;
  if (is_stopped) return;
  keep_trained(record.end);
  std::rethrow_exception(failure);
}

// As they were given; empty: none.
std::string checkpoint_options(const RunArguments& arguments) {
  std::string text;
  if (!arguments.checkpoint.empty()) text += " --checkpoint " + arguments.checkpoint;
  if (arguments.checkpoint_every)
    text += fmt::format(" --checkpoint-every {}", *arguments.checkpoint_every);
  if (arguments.keep) text += fmt::format(" --keep {}", *arguments.keep);
  if (!arguments.resume.empty()) text += " --resume " + arguments.resume;
  return text;
}

// What the processes of a run must have in common.
std::vector<CommonFact> common_facts(const PlannedJob& planned, const RunArguments& arguments,
                                     const CommonOptions& common) {
  const RunArguments& a = arguments;
  const std::string options = fmt::format(
      "--steps {} --seed {} --queues {} --kernels {} --profile {} --timeout {} --learning-rate {}"
      "{}{}",
      a.steps, common.seed, a.queues.empty() ? kDefaultQueues : a.queues,
      a.kernels.empty() ? kDefaultKernels : a.kernels, a.profile, a.timeout_s,
      planned.job.optimizer.learning_rate, a.record.empty() ? "" : " --record",
      checkpoint_options(a));
  const std::string dry = common.dry_run ? " --dry-run" : "";
  return {{"build", build_hash(), ErrorCode::kDevice},
          {"plan", text_hash(to_json_text(planned.plan))},
          {"model", planned.plan.model_hash},
          {"options", options + dry, ErrorCode::kUsage}};
}

std::string data_hash(const SampleData* data) {
  return data == nullptr ? kRandomData : data->fingerprint();
}

// The smallest room of all: the graphs of all processes are one.
std::optional<ArenaRoom> common_room(std::optional<ArenaRoom> room, RunProcesses& processes) {
  if (room) room->capacity = Bytes(processes.least(room->capacity.value));
  return room;
}

void require_arguments(const RunArguments& arguments, const RunProcesses& processes) {
  require_backend(arguments, processes.are_several());
  require(arguments.steps > 0, ErrorCode::kUsage, "--steps must be positive, not {}",
          arguments.steps);
  require(arguments.profile >= 0, ErrorCode::kUsage, "--profile must not be negative, not {}",
          arguments.profile);
  if (arguments.learning_rate)
    require(std::isfinite(*arguments.learning_rate) && *arguments.learning_rate > 0,
            ErrorCode::kUsage, "--learning-rate must be positive and finite, not {}",
            *arguments.learning_rate);
  require_checkpoint_options(arguments);
  require(arguments.record.empty() || (arguments.checkpoint.empty() && arguments.resume.empty()),
          ErrorCode::kUsage,
          "--record {} with --checkpoint or --resume: a recording is of a whole run without stops",
          arguments.record);
}

void say_dry_training(const PlannedJob& planned, const RunArguments& arguments,
                      const std::string& devices, const CommonOptions& common, Console& console) {
  say_dry_run(
      "run",
      fmt::format("train {} for {} on {}: {}", name_of(planned.job.model),
                  counted(arguments.steps, "step"), devices, to_string(planned.plan.strategy)),
      in_results(common, {"run.json", "metrics.jsonl"}), console);
}

void run_in(RunProcesses& processes, const RunArguments& arguments, const CommonOptions& common,
            Console& console) {
  std::optional<PlannedJob> loaded;
  processes.agree_after([&] {
    require_arguments(arguments, processes);
    loaded = load_planned_job(arguments.job);
    if (processes.is_first()) {
      require_new_results(common, loaded->plan);
      if (!arguments.record.empty()) require_writable("--record", arguments.record);
      require_different_files({{"the plan", arguments.job.plan_or_model},
                               {"--cluster", arguments.job.cluster},
                               {"--data", arguments.data},
                               {"--record", arguments.record}});
    }
    processes.spread(static_cast<std::size_t>(loaded->plan.strategy.ranks()));
  });
  PlannedJob& planned = *loaded;
  // The plan, and with it its hash, stays as it is: a learning rate changes no launch.
  if (arguments.learning_rate) planned.job.optimizer.learning_rate = *arguments.learning_rate;
  if (processes.are_several()) {
    processes.require_common(common_facts(planned, arguments, common));
    std::vector<CommonFact> of_devices;
    processes.agree_after([&] { of_devices = common_facts_of_devices(arguments); });
    processes.require_common(of_devices);
  }
  const std::int64_t ranks = planned.plan.strategy.ranks();
  const std::string devices = devices_text(arguments, ranks) + processes.text();
  const DeviceKind& planned_device = planned.job.cluster.device;
  const bool exchanges_slowly = exchanges_locally(arguments, ranks, processes.are_several());
  const bool is_planned =
      !exchanges_slowly && is_planned_device(arguments.backend, planned_device, devices);
  if (exchanges_slowly)
    note_local_exchange(arguments, console);
  else if (!is_planned)
    note_other_device(arguments, planned_device.name, devices, console);
  const std::optional<ArenaRoom> room = common_room(
      is_planned ? room_for_arenas(planned.job.cluster, arguments) : std::nullopt, processes);
  PhysicalGraph graph;
  std::unique_ptr<SampleData> data;
  std::string data_id;  // where checkpoints ask for it
  RunStart start;
  RunWeights weights;
  std::unique_ptr<FolderLock> lock;
  processes.agree_after([&] {
    if (processes.is_first()) lock = lock_present_folder(arguments);
    if (!arguments.resume.empty()) start = RunStart(arguments.resume);
    if (processes.is_first()) require_checkpoint_folder(arguments, start.step());
    graph = compiled(planned, room, processes, console);
    if (!arguments.record.empty()) require_recordable(graph, arguments.steps);
    data = opened_data(graph, arguments.data_options());
    add_data_actors_for(data.get(), arguments, graph);
    if (!arguments.checkpoint.empty() || start.is_resumed()) data_id = data_hash(data.get());
    start.require_same_training(planned, arguments, common.seed, data_id, console);
    if (data && data->depends_on_batch()) start.require_same_batch(planned.plan.global_batch);
    start.require_states(graph);
    if (!arguments.weights.empty())
      weights = RunWeights(arguments.weights, planned.job.model, graph);
  });
  console.end_progress();
  processes.require_common({{"data", processes.are_several() ? data_hash(data.get()) : ""},
                            {"checkpoint", processes.are_several() ? start.id() : ""},
                            {"weights", processes.are_several() ? weights.id() : ""}});
  if (common.dry_run) return say_dry_training(planned, arguments, devices, common, console);

  console.say(fmt::format("{} on {}: {}", name_of(planned.job.model), devices,
                          to_string(planned.plan.strategy)));
  for (const std::string& assumption : planned.plan.assumptions) console.note(assumption);
  RunCheckpoints checkpoints(graph, planned, arguments, common, start, data_id,
                             lock_folder(arguments, std::move(lock), processes), processes);
  const RunSetup setup{planned,
                       graph,
                       arguments,
                       common,
                       devices,
                       is_planned,
                       processes.share(room_for_data(graph, arguments)),
                       room,
                       processes,
                       start,
                       checkpoints};
  std::unique_ptr<RunDevices> world =
      prepared_devices(setup, !arguments.record.empty(), {}, console);
  processes.agree_after([&] {
    start.load(graph, world->devices());
    weights.load(graph, world->devices());
    checkpoints.prepare(world->devices());
  });
  console.end_progress();
  say_synthetic_inputs(graph, data.get(), setup.room_for_data, console);
  if (start.is_resumed()) console.say("goes on behind " + start.text());
  weights.say(console);
  TrainingHost host = training_host(data.get(), setup);
  host.start_at(start.step(), start.samples());
  RunRecorder recorder(planned, peak_memory(graph), start.step() + warm_up_steps(arguments),
                       is_planned);
  const NotedSignals noted;  // until all is written
  const LoadWatch watch;
  std::optional<SpeedWatch> speed;
  if (arguments.backend == "cpu" && processes.is_first()) speed.emplace();
  const auto trained = train(setup, host, std::move(world), recorder, console);
  RunRecorder::Steps steps = recorder.steps();
  if (trained) steps.lines = with_loaded_bytes(steps.lines, trained->loaded_bytes);
  RunRecord record = make_record(setup, steps, trained ? RunEnd::kComplete : RunEnd::kInterrupted);
  if (trained) record.issued = trained->issued;
  // The other processes of a run are no others.
  const std::optional<OthersLoad> load =
      arguments.backend == "cpu" && !processes.are_several() ? watch.load() : std::nullopt;
  if (load) record.others_share = load->others;
  if (speed) record.yardstick_s = speed->mean_seconds();
  speed.reset();
  const auto keep = [&](const RunRecord& kept) {
    say_result(kept, planned, steps, console);
    if (load && !load->is_quiet())
      console.say(busy_text(*load) + " during the run: steps took longer than on a quiet one");
    if (trained && kept.end != RunEnd::kComplete)
      console.say(
          "all steps are trained; times of operators are missing, because the profile did "
          "not end");
    say_profile(kept, console);
    if (trained) say_data(trained->data, console);
    checkpoints.say(console);
    write_results(setup, steps, kept, console);
  };
  // A copy: what profiles is still at work on the record when a signal comes.
  const auto keep_trained = [&, trained = record](RunEnd end) {
    RunRecord kept = trained;
    kept.end = end;
    keep(kept);
    if (end == RunEnd::kInterrupted) console.document("run", Json::parse(to_json_text(kept)));
  };
  if (trained && arguments.profile > 0) profile(setup, data.get(), record, keep_trained, console);
  const auto end = [&] {
    if (!processes.is_first()) return;
    keep(record);
    if (trained)
      write_recording(arguments, trained->recording, console);
    else if (!arguments.record.empty())
      console.note(fmt::format("--record {}: nothing is written of a run that was interrupted",
                               arguments.record));
    require_trained(steps, record);
    Json document = Json::parse(to_json_text(record));
    if (!arguments.checkpoint.empty()) document["checkpoints"] = checkpoints.document();
    if (trained) add_data(trained->data, arguments, document);
    console.document("run", document);
  };
  // After a signal the others may be gone.
  if (record.end == RunEnd::kInterrupted) return end();
  processes.agree_after(end);
  processes.note_done();
}

void run_run(const RunArguments& arguments, const CommonOptions& common, Console& console) {
  if (const auto several = launched())
    return run_over(
        *several, arguments.timeout_s, common, console,
        [&arguments](RunProcesses& processes, const CommonOptions& own, Console& own_console) {
          run_in(processes, arguments, own, own_console);
        });
  RunProcesses alone;
  run_in(alone, arguments, common, console);
}

}  // namespace

Verb run_verb() {
  const auto arguments = std::make_shared<RunArguments>();
  RunArguments& a = *arguments;
  return {.path = "run",
          .text = "Train with a plan",
          .examples =
              "Examples:\n  sextant run plan.json --data text.txt --steps 500 --out run "
              "--checkpoint ck --checkpoint-every 100\n"
              "  sextant run plan.json --backend cuda --gpus 0,1 --data random --profile 3",
          .options = joined(
              job_options(a.job, true),
              {
                  {"--backend", &a.backend, "cpu, cuda"},
                  {"--queues", &a.queues, "cpu: asynchronous (default), inline, stress"},
                  {"--kernels", &a.kernels, "cpu: fast (default), reference"},
                  {"--graphs", &a.graphs,
                   "cuda: a step as one CUDA graph: on (default of one rank), off"},
                  {"--deterministic", &a.deterministic, "cuda: the same bits in every run"},
                  {"--matmul-cache", &a.matmul_cache,
                   "cuda: file that keeps which algorithms were measured to be fast"},
                  {"--gpus", &a.gpus, "cuda: which ones, as 0,1; default: all"},
                  {"--ranks-per-gpu", &a.ranks_per_gpu,
                   "cuda: neighbouring ranks that share a GPU (1)"},
                  {"--collectives", &a.collectives,
                   "cuda: nccl (default where each rank has a GPU), local: ranks pull from each "
                   "other, may share a GPU"},
                  {"--timeout", &a.timeout_s,
                   "seconds in which something must end while a rank waits for others"},
                  {"--data", &a.data,
                   "text, tokens, images or a folder, as --data-format, --data-order and "
                   "--registers say; random: uniform ids"},
                  detail({"--data-format", &a.data_format,
                          "text, jsonl, uint16, uint32, llm.c, megatron, images, tar (by name)"}),
                  detail({"--data-order", &a.data_order,
                          "places, shuffled or file, window=N, last_batch=wrap, drop or pad"}),
                  detail({"--registers", &a.registers, "of the actors that make images (2)"}),
                  {"--steps", &a.steps,
                   "optimizer steps of the whole training, those of --resume included"},
                  {"--profile", &a.profile, "extra steps that time every operator"},
                  {"--record", &a.record,
                   "cpu: write launches and messages with their times: simulate --replay"},
                  {"--learning-rate", &a.learning_rate, "instead of the plan's"},
                  {"--checkpoint", &a.checkpoint, "folder for checkpoints; one at the end"},
                  {"--checkpoint-every", &a.checkpoint_every, "and one every so many steps"},
                  {"--keep", &a.keep, "checkpoints that stay, the newest (all)"},
                  {"--resume", &a.resume,
                   "checkpoint, or folder of them: go on from the last, under any plan; --weights: "
                   "begin with a file's"},
                  detail({"--weights", &a.weights,
                          "begin with safetensors of Hugging Face, or of export: file or folder"}),
              }),
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_run(*arguments, common, console); },
          .is_seeded = true,
          .writes_results = true,
          .has_dry_run = true,
          .shares_processes = true};
}

}  // namespace sextant
