// `sextant simulate`: where the step of one plan goes.
#include "cli/memory_section.h"
#include "cli/verbs.h"
#include "core/check.h"
#include "simulator/chrome_trace.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <optional>

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

void say_memory(const Simulation& simulation, Bytes capacity, const Console& console) {
  Table table({"memory of the worst device", "peak"});
  for (std::size_t i = 0; i < simulation.peak_memory_by_class.size(); ++i)
    if (simulation.peak_memory_by_class[i].value > 0)
      table.add({std::string(to_string(static_cast<MemoryClass>(i))),
                 to_text(simulation.peak_memory_by_class[i])});
  table.add({"arena", fmt::format("{} of {}", to_text(simulation.peak_memory), to_text(capacity))});
  console.say(table.text());
}

}  // namespace

void run_simulate(const SimulateArguments& arguments, const CommonOptions& common,
                  Console& console) {
  const PlannedJob planned = load_planned_job(arguments.job);
  const ExpandedGraph expanded = expanded_graph(planned);
  const PhysicalGraph& graph = expanded.graph;
  SimulateOptions options;
  options.mode = arguments.step_mode ? SimulationMode::kStep : SimulationMode::kTape;
  options.folded = !arguments.unfolded && arguments.jitter == 0;
  options.keep_slices = !arguments.trace.empty();
  options.jitter = arguments.jitter;
  options.seed = common.seed;
  std::optional<MemorySection> memory;
  if (arguments.memory) {
    memory = memory_section(expanded,
                            simulate_timeline(graph, *planned.cost, *planned.network, options));
    say(*memory, console);  // also of a plan that does not fit
  }
  require_fits(planned, graph);
  const Simulation simulation = simulate(graph, *planned.cost, *planned.network, options);
  if (!arguments.trace.empty()) write_file_whole(arguments.trace, to_chrome_trace(simulation));
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
  say_memory(simulation, job.cluster.device.memory, console);
  if (!arguments.trace.empty())
    console.say(
        fmt::format("trace in {}; open it with Perfetto or chrome://tracing", arguments.trace));
  if (common.seed != 0 && arguments.jitter == 0)
    console.say("note: --seed had no effect, there is no --jitter");
  Json body = {{"strategy", to_string(planned.plan.strategy)},
               {"step_time_s", step_s},
               {"tokens_per_s", tokens_per_s},
               {"mfu", value ? Json(*value) : Json(nullptr)},
               {"parts_s", parts_json(simulation.parts)},
               {"peak_memory_bytes", simulation.peak_memory.value},
               {"memory_by_class_bytes", memory_json(simulation.peak_memory_by_class)},
               {"ranks_simulated", simulation.ranks_simulated},
               {"events", simulation.events}};
  if (memory) body["memory"] = memory_section_json(*memory);
  console.document("simulate", body);
}

}  // namespace sextant
