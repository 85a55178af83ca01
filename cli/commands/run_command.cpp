// `sextant run`: trains with a plan, on CPU ranks in this process or in several, or on GPUs.
#include "cli/dry_run.h"
#include "cli/launched.h"
#include "cli/runs/over_processes.h"
#include "cli/runs/planned_device.h"
#include "cli/runs/run_processes.h"
#include "cli/signals.h"
#include "cli/training/common_facts.h"
#include "cli/training/launch_recording.h"
#include "cli/training/run_backend.h"
#include "cli/training/run_checkpoints.h"
#include "cli/training/run_data.h"
#include "cli/training/run_outcome.h"
#include "cli/training/run_recorder.h"
#include "cli/training/run_results.h"
#include "cli/training/run_setup.h"
#include "cli/training/run_start.h"
#include "cli/training/run_weights.h"
#include "cli/training/watched_work.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "cli/work_watch.h"
#include "compiler/memory/memory_report.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "io/training_host.h"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace sextant {
namespace {

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

void note_other_device(const RunArguments& arguments, const std::string& planned,
                       const std::string& devices, const Console& console) {
  console.note(fmt::format(
      "the plan is for {}, --backend {} runs it on {}: times and rates are of another device",
      planned, arguments.backend, devices));
}

void note_local_exchange(const RunArguments& arguments, const Console& console) {
  console.note(
      "ranks pull from each other (--collectives local): times and rates are of no network");
  if (arguments.graphs == "on")
    console.note("--graphs on has no effect: ranks that pull from each other meet in every step");
}

PhysicalGraph compiled(const PlannedJob& planned, const std::optional<ArenaRoom>& room,
                       RunProcesses& processes, Console& console) {
  const WorkWatch watch = watch_preparation("compiling", {}, processes, console);
  PhysicalGraph graph = physical_graph(planned, room);
  require_fits(planned, graph);
  return graph;
}

// Everything that a run needs before it has devices.
struct PreparedRun {
  PhysicalGraph graph;
  std::unique_ptr<SampleData> data;
  std::string data_id;  // where checkpoints ask for it
  RunStart start;
  RunWeights weights;
  std::unique_ptr<FolderLock> lock;
};

PlannedJob load_together(const RunArguments& arguments, const CommonOptions& common,
                         RunProcesses& processes) {
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
  // The plan, and with it its hash, stays as it is: a learning rate changes no launch.
  if (arguments.learning_rate) loaded->job.optimizer.learning_rate = *arguments.learning_rate;
  return *std::move(loaded);
}

// Whether the devices that run are those of the plan; notes it where they are not.
bool run_as_planned(const PlannedJob& planned, const RunArguments& arguments,
                    const std::string& devices, const RunProcesses& processes,
                    const Console& console) {
  const DeviceKind& planned_device = planned.job.cluster.device;
  if (exchanges_locally(arguments, planned.plan.strategy.ranks(), processes.are_several())) {
    note_local_exchange(arguments, console);
    return false;
  }
  const bool is_planned = is_planned_device(arguments.backend, planned_device, devices);
  if (!is_planned) note_other_device(arguments, planned_device.name, devices, console);
  return is_planned;
}

PreparedRun prepare(const PlannedJob& planned, const RunArguments& arguments,
                    const CommonOptions& common, const std::optional<ArenaRoom>& room,
                    RunProcesses& processes, Console& console) {
  PreparedRun run;
  processes.agree_after([&] {
    if (processes.is_first()) run.lock = lock_present_folder(arguments);
    if (!arguments.resume.empty()) run.start = RunStart(arguments.resume);
    if (processes.is_first()) require_checkpoint_folder(arguments, run.start.step());
    run.graph = compiled(planned, room, processes, console);
    if (!arguments.record.empty()) require_recordable(run.graph, arguments.steps);
    run.data = open_run_data(run.graph, arguments.data_options());
    add_data_actors_for(run.data.get(), arguments, run.graph);
    if (!arguments.checkpoint.empty() || run.start.is_resumed())
      run.data_id = data_hash(run.data.get());
    run.start.require_same_training(planned, arguments, common.seed, run.data_id, console);
    if (run.data && run.data->depends_on_batch())
      run.start.require_same_batch(planned.plan.global_batch);
    run.start.require_states(run.graph);
    if (!arguments.weights.empty())
      run.weights = RunWeights(arguments.weights, planned.job.model, run.graph);
  });
  console.end_progress();
  const bool are_several = processes.are_several();
  processes.require_common({{"data", are_several ? data_hash(run.data.get()) : ""},
                            {"checkpoint", are_several ? run.start.id() : ""},
                            {"weights", are_several ? run.weights.id() : ""}});
  return run;
}

// Trains and keeps what comes of it.
void run_prepared(const RunSetup& setup, const PreparedRun& run, Console& console) {
  RunProcesses& processes = setup.processes;
  std::unique_ptr<RunDevices> world =
      prepared_devices(setup, !setup.arguments.record.empty(), {}, console);
  processes.agree_after([&] {
    run.start.load(run.graph, world->devices());
    run.weights.load(run.graph, world->devices());
    setup.checkpoints.prepare(world->devices());
  });
  console.end_progress();
  say_synthetic_inputs(run.graph, run.data.get(), setup.room_for_data, console);
  if (run.start.is_resumed()) console.say("goes on behind " + run.start.text());
  run.weights.say(console);
  TrainingHost host = training_host(run.data.get(), setup);
  host.start_at(run.start.step(), run.start.samples());
  RunRecorder recorder(setup.planned, peak_memory(run.graph),
                       run.start.step() + setup.warm_up_steps(), setup.is_planned_device);
  const NotedSignals noted;  // until all is written
  RunOutcome outcome = trained_outcome(setup, host, std::move(world), recorder, console);
  add_profile(setup, run.data.get(), outcome, console);
  end_run(setup, outcome, console);
}

void run_in(RunProcesses& processes, const RunArguments& arguments, const CommonOptions& common,
            Console& console) {
  const PlannedJob planned = load_together(arguments, common, processes);
  require_common_run(planned, arguments, common, processes);
  const std::string devices =
      devices_text(arguments, planned.plan.strategy.ranks()) + processes.text();
  const bool is_planned = run_as_planned(planned, arguments, devices, processes, console);
  const std::optional<ArenaRoom> room = common_room(
      is_planned ? room_for_arenas(planned.job.cluster, arguments) : std::nullopt, processes);
  PreparedRun run = prepare(planned, arguments, common, room, processes, console);
  if (common.dry_run) return say_dry_training(planned, arguments, devices, common, console);

  console.say(fmt::format("{} on {}: {}", name_of(planned.job.model), devices,
                          to_string(planned.plan.strategy)));
  for (const std::string& assumption : planned.plan.assumptions) console.note(assumption);
  RunCheckpoints checkpoints(run.graph, planned, arguments, common, run.start, run.data_id,
                             lock_folder(arguments, std::move(run.lock), processes), processes);
  const RunSetup setup{planned,
                       run.graph,
                       arguments,
                       common,
                       devices,
                       is_planned,
                       processes.share(room_for_data(run.graph, arguments)),
                       room,
                       processes,
                       run.start,
                       checkpoints};
  run_prepared(setup, run, console);
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
