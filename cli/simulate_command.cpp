// `sextant simulate`: where the step of one plan goes.
#include "cli/memory_section.h"
#include "cli/verbs.h"
#include "cli/what_if_section.h"
#include "core/check.h"
#include "io/gzip.h"
#include "simulator/chrome_trace.h"
#include "simulator/flow_model.h"
#include "simulator/html_timeline.h"
#include "simulator/library_memory.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <optional>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

void say_parts(const StepParts& parts, double step_s, const Console& console) {
  Table table({"part of the step", "mean", "share", "least", "most"});
  const auto add = [&](const char* name, const StepParts::Spread& part) {
    const auto text = [](double seconds) { return to_text(duration_from_seconds(seconds)); };
    table.add({name, text(part.mean_s), percent(part.mean_s / step_s), text(part.min_s),
               text(part.max_s)});
  };
  add("compute", parts.compute);
  add("optimizer", parts.optimizer);
  add("exposed communication", parts.exposed_communication);
  add("host", parts.host);
  add("bubble", parts.bubble);
  console.say(table.text());
}

void say_memory(const Simulation& simulation, const std::vector<LibraryUse>& libraries,
                Bytes capacity, const Console& console) {
  Table table({"memory of the worst device", "peak"});
  for (std::size_t i = 0; i < simulation.peak_memory_by_class.size(); ++i)
    if (simulation.peak_memory_by_class[i].value > 0)
      table.add({std::string(to_string(static_cast<MemoryClass>(i))),
                 to_text(simulation.peak_memory_by_class[i])});
  table.add({"arena", fmt::format("{} of {}", to_text(simulation.peak_memory), to_text(capacity))});
  for (const LibraryUse& use : libraries)
    table.add({"libraries: " + use.name,
               fmt::format("{} ({})", to_text(use.bytes), to_string(use.provenance))});
  if (!libraries.empty())
    table.add({"arena and libraries", to_text(simulation.peak_memory + total(libraries))});
  console.say(table.text());
}

// Memory in use under each rank of the trace, over the windows that the chart has too.
void append_memory(const PhysicalGraph& graph, const MemorySection& memory,
                   const Timeline& timeline, std::vector<CounterTrack>& tracks) {
  for (const RankTimeline& rank : timeline.ranks) {
    const ProgramMemory& program = memory.programs[graph.ranks[rank.rank.index()].program.index()];
    const auto windows = static_cast<std::int64_t>(program.over_time.size());
    CounterTrack track{rank.rank, "memory in use (bytes)", {}};
    for (std::int64_t i = 0; i < windows; ++i)
      track.samples.push_back(
          {Time((program.begin - timeline.first_begin()).value +
                (program.end - program.begin).value * i / std::max<std::int64_t>(windows, 1)),
           program.over_time[static_cast<std::size_t>(i)].value});
    tracks.push_back(std::move(track));
  }
}

void write_trace(const std::string& file, const PhysicalGraph& graph, const MemorySection& memory,
                 const Timeline& timeline, const Simulation& simulation) {
  std::vector<CounterTrack> tracks = launches_in_flight(timeline);
  append_memory(graph, memory, timeline, tracks);
  const std::string trace = to_chrome_trace(simulation, tracks);
  write_file_whole(file, file.ends_with(".gz") ? gzip(trace) : trace);
}

void write_pictures(const SimulateArguments& arguments, const PlannedJob& planned,
                    const ExpandedGraph& expanded, const Simulation& simulation,
                    const SimulateOptions& options) {
  const PhysicalGraph& graph = expanded.graph;
  const Timeline timeline = simulate_timeline(graph, *planned.cost, *planned.network, options);
  const MemorySection memory = memory_section(expanded, timeline);
  if (!arguments.trace.empty()) write_trace(arguments.trace, graph, memory, timeline, simulation);
  if (arguments.timeline.empty()) return;
  HtmlTimelineOptions page;
  page.title =
      fmt::format("{} on {}, simulated", name_of(planned.job.model), planned.job.cluster.name);
  page.notes = {to_string(planned.plan.strategy),
                fmt::format("step {}; {} of {} ranks simulated", to_text(simulation.step_time),
                            simulation.ranks_simulated, graph.ranks.size())};
  for (const ProgramMemory& program : memory.programs)
    page.memory.push_back({program.program, program.over_time});
  write_file_whole(arguments.timeline, to_html_timeline(graph, timeline, simulation.parts, page));
}

// Before work is lost.
void require_sense(const SimulateArguments& arguments) {
  require(arguments.plot.empty() || !arguments.sweep.empty(), ErrorCode::kUsage,
          "--plot {} has nothing to draw without --sweep", arguments.plot);
  require(!arguments.trace.ends_with(".gz") || can_gzip(), ErrorCode::kUsage,
          "--trace {}: this sextant was built without zlib", arguments.trace);
}

// Of the names that the command line lets through.
SimulationMode mode_of(const std::string& name) {
  if (name == "timed") return SimulationMode::kTimed;
  return name == "step" ? SimulationMode::kStep : SimulationMode::kTape;
}

// Timed mode wants to know of links, and of what runs beside what.
void prepare_mode(PlannedJob& planned, SimulateOptions& options, const Console& console) {
  const Cluster& cluster = planned.job.cluster;
  if (options.mode == SimulationMode::kTimed) {
    planned.network = make_flow_network(cluster, std::move(planned.network));
    options.overlap = overlap_shares(cluster);
  } else if (!overlap_shares(cluster).empty()) {
    console.say("note: what kernels and communications do to each other shows in --mode timed");
  }
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

}  // namespace

void run_simulate(const SimulateArguments& arguments, const CommonOptions& common,
                  Console& console) {
  require_sense(arguments);
  PlannedJob planned = load_planned_job(arguments.job);
  const ExpandedGraph expanded = expanded_graph(planned);
  const PhysicalGraph& graph = expanded.graph;
  SimulateOptions options;
  options.mode = mode_of(arguments.mode);
  options.folded = !arguments.unfolded && arguments.jitter == 0;
  options.keep_slices = !arguments.trace.empty();
  options.jitter = arguments.jitter;
  options.seed = common.seed;
  prepare_mode(planned, options, console);
  std::optional<MemorySection> memory;
  if (arguments.memory) {
    memory = memory_section(expanded,
                            simulate_timeline(graph, *planned.cost, *planned.network, options));
    say(*memory, console);  // also of a plan that does not fit
  }
  require_fits(planned, graph);
  const Simulation simulation = simulate(graph, *planned.cost, *planned.network, options);
  if (!arguments.trace.empty() || !arguments.timeline.empty())
    write_pictures(arguments, planned, expanded, simulation, options);
  const double step_s = to_seconds(simulation.step_time);
  const Job& job = planned.job;
  const double tokens_per_s =
      static_cast<double>(job.global_batch) * static_cast<double>(job.sequence) / step_s;
  const auto value = mfu(job, step_s, planned.plan.strategy.ranks());

  console.say(fmt::format("{} on {}: {}", name_of(job.model), job.cluster.name,
                          to_string(planned.plan.strategy)));
  console.say(fmt::format(
      "step {}, {:.0f} tokens/s, MFU {} of {} (simulated; {} of {} ranks, {} "
      "launches)",
      to_text(simulation.step_time), tokens_per_s, value ? percent(*value) : "n/a",
      job.cluster.device.name, simulation.ranks_simulated, graph.ranks.size(), simulation.events));
  say_parts(simulation.parts, step_s, console);
  const std::vector<LibraryUse> libraries = library_memory(graph, job.cluster.device);
  say_memory(simulation, libraries, job.cluster.device.memory, console);
  if (!arguments.trace.empty())
    console.say(
        fmt::format("trace in {}; open it with Perfetto or chrome://tracing", arguments.trace));
  if (!arguments.timeline.empty())
    console.say(fmt::format("timeline in {}; open it with a browser", arguments.timeline));
  if (common.seed != 0 && arguments.jitter == 0)
    console.say("note: --seed had no effect, there is no --jitter");
  Json body = {{"strategy", to_string(planned.plan.strategy)},
               {"mode", arguments.mode},
               {"step_time_s", step_s},
               {"tokens_per_s", tokens_per_s},
               {"mfu", value ? Json(*value) : Json(nullptr)},
               {"parts_s", parts_json(simulation.parts)},
               {"peak_memory_bytes", simulation.peak_memory.value},
               {"memory_by_class_bytes", memory_json(simulation.peak_memory_by_class)},
               {"library_memory", libraries_json(libraries)},
               {"ranks_simulated", simulation.ranks_simulated},
               {"events", simulation.events}};
  if (memory) body["memory"] = memory_section_json(*memory);
  if (!arguments.what_if.empty()) {
    const WhatIfSection section = what_if_section(planned, graph, options, arguments.what_if);
    say(section, console);
    body["what_if"] = what_if_json(section);
  }
  if (!arguments.sweep.empty()) {
    const SweepSection section = sweep_section(planned, graph, options, arguments.sweep);
    say(section, console);
    if (!arguments.plot.empty()) write_file_whole(arguments.plot, sweep_chart(section));
    body["sweep"] = sweep_json(section);
  }
  console.document("simulate", body);
}

}  // namespace sextant
