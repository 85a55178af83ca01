// `sextant simulate`: where the step of one plan goes.
#include "cli/dry_run.h"
#include "cli/sections/data_section.h"
#include "cli/sections/link_section.h"
#include "cli/sections/memory_section.h"
#include "cli/sections/operator_section.h"
#include "cli/sections/path_section.h"
#include "cli/sections/picture_section.h"
#include "cli/sections/plan_notes.h"
#include "cli/sections/routing_section.h"
#include "cli/sections/simulation_setup.h"
#include "cli/sections/variation_section.h"
#include "cli/sections/what_if_section.h"
#include "cli/throughput.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/part_text.h"
#include "simulator/costs/library_memory.h"
#include "simulator/costs/overlap.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

// More than readers of JSON traces like.
constexpr std::size_t kManySlices = 1'000'000;

// Of the device with least room.
void say_memory(const std::vector<Bytes>& by_class, const DeviceMemory& tightest,
                const Console& console) {
  const std::vector<LibraryUse>& libraries = tightest.libraries;
  TextTable table({"memory of the worst device", "peak"});
  for (std::size_t i = 0; i < by_class.size(); ++i)
    if (by_class[i] > Bytes(0))
      table.add({std::string(to_string(static_cast<MemoryClass>(i))), to_text(by_class[i])});
  table.add({"arena", libraries.empty() ? part_text(tightest.arena, tightest.capacity)
                                        : to_text(tightest.arena)});
  for (const LibraryUse& use : libraries)
    table.add({"libraries: " + use.name,
               fmt::format("{} ({})", to_text(use.bytes), to_string(use.provenance))});
  if (!libraries.empty())
    table.add({"arena and libraries", part_text(tightest.needed(), tightest.capacity)});
  console.say(table.text());
}

Json libraries_json(const std::vector<LibraryUse>& libraries) {
  Json json = Json::array();
  for (const LibraryUse& use : libraries)
    json.push_back({{"name", use.name},
                    {"bytes", use.bytes.value},
                    {"provenance", to_string(use.provenance)},
                    {"source", use.source}});
  return json;
}

// As the experts are routed.
const PhysicalGraph& timed_graph(const ExpandedGraph& expanded, const SimulationSetup& setup) {
  return setup.routed == nullptr ? expanded.graph() : setup.routed->graph;
}

// What was simulated, for everything that speaks of it.
struct Simulated {
  const SimulateArguments& arguments;
  const PlannedJob& planned;
  const ExpandedGraph& expanded;
  const SimulationSetup& setup;
  const Timeline& timeline;
  const Simulation& simulation;
  const std::optional<LinkUses>& links;
  const std::optional<DataSection>& data;

  const PhysicalGraph& graph() const { return timed_graph(expanded, setup); }
  // A routed graph has programs of its own, of the same ranks.
  CompiledPlan compiled() const {
    const std::vector<Bytes> tight = expanded.tight_arenas();
    CompiledPlan plan{graph(), std::vector<Bytes>(graph().programs.size())};
    for (const Rank rank : graph().ranks.keys())
      plan.tight[graph().ranks[rank].program.index()] =
          tight[expanded.graph().ranks[rank].program.index()];
    return plan;
  }
  const std::vector<Bytes>& peak_by_class(ProgramId program) const {
    return expanded.graph().programs[program].arena.peak_by_class;
  }
  double step_s() const { return to_seconds(simulation.step_time); }
  Throughput rate() const { return throughput(planned.job, step_s()); }
  std::optional<double> flops_share() const {
    return mfu(planned.job, step_s(), planned.plan.strategy.ranks());
  }
};

std::string blocks_text(const BlockUse& use) {
  return fmt::format("{} of {}, {} outside{}", counted(use.instances, "block"),
                     counted(use.kinds, "kind"), counted(use.launches_outside, "launch"),
                     use.fell_back ? "; the window of launches decides, so the tape has the times"
                                   : "; their steps end as the tape's");
}

Json blocks_json(const BlockUse& use) {
  return {{"instances", use.instances},
          {"kinds", use.kinds},
          {"launches_outside", use.launches_outside},
          {"fell_back", use.fell_back}};
}

void say_step(const Simulated& it, const Console& console) {
  const Job& job = it.planned.job;
  const auto share = it.flops_share();
  console.say(fmt::format("{} on {}: {}", name_of(job.model), job.cluster.name,
                          to_string(it.planned.plan.strategy)));
  console.say(fmt::format("step {}, {}, MFU {} of {} (simulated; {} of {}, {})",
                          to_text(it.simulation.step_time), to_text(it.rate()),
                          share ? percent(*share) : "n/a", job.cluster.device.name,
                          it.simulation.ranks_simulated, counted(it.graph().ranks.size(), "rank"),
                          counted(it.simulation.events, "launch")));
  if (it.simulation.blocks) console.say(blocks_text(*it.simulation.blocks));
}

// Memory is that of the device with least room.
Json step_json(const Simulated& it, const DeviceMemory& tightest) {
  const auto share = it.flops_share();
  Json body = {{"strategy", to_string(it.planned.plan.strategy)},
               {"mode", it.arguments.mode},
               {"step_time_s", it.step_s()}};
  add_to(body, it.rate());
  body.update(
      {{"mfu", share ? Json(*share) : Json(nullptr)},
       {"parts_s", parts_json(it.simulation.parts)},
       {"peak_memory_bytes", tightest.arena.value},
       {"memory_by_class_bytes", memory_json(it.peak_by_class(tightest.program))},
       {"ranks_simulated", it.simulation.ranks_simulated},
       {"events", it.simulation.events},
       {"idle_devices", it.planned.job.cluster.num_devices() - it.planned.plan.strategy.ranks()},
       {"assumptions", it.planned.plan.assumptions}});
  return body;
}

// Before anything is said: a file that cannot be written is an error.
void draw_pictures(const Simulated& it) {
  PictureFiles files{it.arguments.trace, it.arguments.timeline};
  if (files.trace.empty() && files.timeline.empty()) return;
  if (it.links) files.notes = link_notes(*it.links);
  write_pictures(files, it.planned, it.expanded, it.timeline, it.simulation);
}

void say_pictures(const Simulated& it, const Console& console) {
  const SimulateArguments& arguments = it.arguments;
  const bool is_native = is_native_trace(arguments.trace);
  if (!arguments.trace.empty())
    console.say(fmt::format("trace in {}; open it with Perfetto{}", arguments.trace,
                            is_native ? "" : " or chrome://tracing"));
  if (!arguments.trace.empty() && !is_native && it.simulation.slices.size() > kManySlices)
    console.say(fmt::format("note: a trace of {} slices as FILE.pftrace takes a third of the bytes",
                            it.simulation.slices.size()));
  if (!arguments.timeline.empty())
    console.say(fmt::format("timeline in {}; open it with a browser", arguments.timeline));
}

void add_routing(const Simulated& it, Json& body, const Console& console) {
  const RoutedGraph& routed = *it.setup.routed;
  const PlacesMemory memory = places_memory(routed, it.expanded, it.timeline);
  say(routed, *it.setup.routing, memory, console);
  body["routing"] = routing_json(routed, *it.setup.routing, memory);
}

void add_operators(const Simulated& it, Json& body, const Console& console) {
  const OperatorSection section{operator_uses(it.graph(), it.timeline, *it.planned.cost),
                                static_cast<std::int64_t>(it.graph().ranks.size()),
                                it.simulation.step_time};
  say(section, console);
  body["operators"] = operators_json(section);
}

void add_path(const Simulated& it, Json& body, const Console& console) {
  if (!it.arguments.critical_path) return;
  const StepPath path =
      simulate_path(it.graph(), *it.planned.cost, *it.planned.network, it.setup.options);
  say(path, console);
  body["critical_path"] = path_json(path);
}

void add_variation(const Simulated& it, Json& body, std::uint64_t seed, const Console& console) {
  const SimulateArguments& arguments = it.arguments;
  if (arguments.samples > 0) {
    const StepSamples samples = step_samples(it.simulation);
    say(samples, console);
    body["samples"] = samples_json(samples);
  }
  if (!it.setup.reliability) return;
  const LongRun run = long_run(*it.setup.reliability, seed);
  say(run, it.rate(), console);
  body["long_run"] = long_run_json(run);
}

void add_changes(const Simulated& it, Json& body, const Console& console) {
  const SimulateArguments& arguments = it.arguments;
  if (!arguments.what_if.empty()) {
    const WhatIfSection section = what_if_section(it.planned, it.compiled(), it.setup);
    say(section, console);
    body["what_if"] = what_if_json(section);
  }
  if (arguments.sweep.empty()) return;
  const SweepSection section = sweep_section(it.planned, it.compiled(), it.setup, arguments.sweep);
  say(section, console);
  if (!arguments.plot.empty()) write_file_whole(arguments.plot, sweep_chart(section));
  body["sweep"] = sweep_json(section);
}

void say_notes(const Simulated& it, std::uint64_t seed, const Console& console) {
  for (const std::string& note :
       plan_notes(it.planned, rank_use(it.planned.plan.strategy, it.planned.job.cluster)))
    console.say("note: " + note);
  if (seed != 0 && it.arguments.jitter == 0 && !it.setup.reliability)
    console.say("note: --seed had no effect, there is neither --jitter nor --failures");
  if (it.setup.options.mode != SimulationMode::kTimed &&
      !overlap_shares(it.planned.job.cluster).empty())
    console.say("note: what kernels and communications do to each other shows in --mode timed");
}

// Tables on the way, the document at the end.
Json report(const Simulated& it, const std::optional<MemorySection>& memory, std::uint64_t seed,
            const Console& console) {
  const Cluster& cluster = it.planned.job.cluster;
  const DeviceMemory tightest = device_memory(it.expanded.graph(), cluster);
  Json body = step_json(it, tightest);
  say_step(it, console);
  console.say(parts_table(it.simulation.parts, it.step_s()).text());
  const std::vector<LibraryUse>& libraries = tightest.libraries;
  say_memory(it.peak_by_class(tightest.program), tightest, console);
  if (it.setup.routed != nullptr)
    add_routing(it, body, console);
  else
    for (const ExpertSizes& sizes : expert_sizes(it.expanded.graph()))
      say_full_places(sizes, console);
  if (it.arguments.operators) add_operators(it, body, console);
  if (it.links) say(*it.links, console);
  if (it.data) say(*it.data, console);
  say_notes(it, seed, console);
  if (it.simulation.blocks) body["blocks"] = blocks_json(*it.simulation.blocks);
  if (it.links) body["links"] = links_json(*it.links);
  if (it.data) body["data"] = data_json(*it.data);
  body["library_memory"] = libraries_json(libraries);
  if (memory) body["memory"] = memory_section_json(*memory);
  say_pictures(it, console);
  add_path(it, body, console);
  add_variation(it, body, seed, console);
  add_changes(it, body, console);
  return body;
}

void run_simulate(const SimulateArguments& arguments, const CommonOptions& common,
                  Console& console) {
  if (!arguments.replay.empty()) return run_replay(arguments, common, console);
  PlannedJob planned = load_planned_job(arguments.job);
  SimulationSetup setup =
      simulation_setup(arguments, common, planned.job.cluster, planned.plan.strategy.ranks());
  // The graph is compiled for the cluster as it should be; what varies, varies in the run of it.
  const ExpandedGraph expanded = expanded_graph(planned);
  std::optional<RoutedGraph> routed;
  if (setup.routing) setup.routed = &routed.emplace(routed_graph(expanded.graph(), *setup.routing));
  const PhysicalGraph& graph = timed_graph(expanded, setup);
  TimingModels models = models_for(setup, planned.job.cluster, planned.job.dtype);
  planned.cost = std::move(models.cost);
  planned.network = std::move(models.network);
  if (!arguments.memory) require_fits(planned, expanded.graph());
  if (common.dry_run)
    return say_dry_run("simulate",
                       fmt::format("simulate {} of {}", counted(graph.ranks.size(), "rank"),
                                   to_string(planned.plan.strategy)),
                       {arguments.trace, arguments.timeline, arguments.plot}, console);
  const Timeline timeline =
      expanded.proven() && setup.routed == nullptr
          ? simulate_timeline(*expanded.proven(), *planned.cost, *planned.network, setup.options)
          : simulate_timeline(graph, *planned.cost, *planned.network, setup.options);
  std::optional<MemorySection> memory;
  if (arguments.memory) {
    memory = memory_section(expanded, timeline);
    say(*memory, console);  // also of a plan that does not fit
    require_fits(planned, expanded.graph());
  }
  Simulation simulation = simulation_of(graph, *planned.cost, timeline, setup.options);
  std::optional<DataSection> data;
  if (!arguments.data_times.empty()) {
    data = data_section(arguments.data_times, graph, timeline, simulation.step_time);
    add_data_slices(*data, simulation.slices);
  }
  std::optional<LinkUses> links;
  if (arguments.links) links = link_uses(graph, timeline, *planned.network);
  const Simulated it{arguments, planned, expanded, setup, timeline, simulation, links, data};
  draw_pictures(it);
  console.document("simulate", report(it, memory, common.seed, console));
}

}  // namespace

Verb simulate_verb() {
  const auto arguments = std::make_shared<SimulateArguments>();
  SimulateArguments& a = *arguments;
  return {
      .path = "simulate",
      .text = "Where the step of a plan goes",
      .examples =
          "Examples:\n  sextant simulate plan.json --trace trace.json.gz --timeline step.html\n"
          "  sextant simulate gpt3-175b -c dgx-a100:nodes=128 --strategy \"dp=16 tp=8 pp=8\" "
          "--global-batch 1536",
      .options = joined(
          job_options(a.job, true),
          {
              {"--trace", &a.trace,
               "write a Chrome trace, or FILE.pftrace for Perfetto alone; FILE.gz is compressed"},
              {"--timeline", &a.timeline, "write the step as one HTML page"},
              {"--replay", &a.replay, "repeat a run that run --record wrote, on the virtual clock"},
              {"--what-if", &a.what_if,
               "the same plan with a changed number: link.ib.bandwidth=2x, gpu.flops=1.5x, "
               "host.launch=2us; repeatable"},
              {"--sweep", &a.sweep, "the same over a range: link.ib.bandwidth=0.25x..4x"},
              {"--plot", &a.plot, "write the sweep as SVG"},
              {"--memory", &a.memory, "by stage and class, over the step, largest owners"},
              {"--unfolded", &a.unfolded, "every rank, not one per class"},
              {"--mode",
               &a.mode,
               "tape: one pass over the recorded step (default); block, step: the same by layers, "
               "or "
               "by actors (slow); timed: links are shared, kernels and communications slow each "
               "other",
               false,
               {"tape", "block", "step", "timed"}},
              {"--critical-path", &a.critical_path,
               "the chain of launches that bounds the step, and the slack of the others"},
              {"--operators", &a.operators, "what each operator takes, the longest first"},
              {"--links", &a.links, "what each link carries, the busiest first"},
              {"--routing", &a.routing,
               "tokens to experts: uniform, zipf=1.1 or a file, one number per expert; empty "
               "places cost nothing"},
              {"--data-times", &a.data_times,
               "actors that make samples: \"read=1ms decode=40ms augment=8ms registers=2\""},
              {"--jitter", &a.jitter, "relative deviation of compute times"},
              {"--samples", &a.samples, "steps under --jitter: quantiles of their time"},
              {"--straggler", &a.stragglers,
               "a rank whose kernels take longer, 5=1.2x; repeatable"},
              {"--failures", &a.failures,
               "what long runs keep: \"mtbf=50000h checkpoint=60s restart=5min every=30min\""},
          }),
      .action = [arguments](const CommonOptions& common,
                            Console& console) { run_simulate(*arguments, common, console); },
      .is_seeded = true,
      .has_dry_run = true,
      .keeps_freed_pages = true};
}

}  // namespace sextant
