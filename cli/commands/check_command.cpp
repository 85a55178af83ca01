// `sextant check`: static proof that a plan is whole, fits and cannot deadlock.
#include "actor/proof/prove.h"
#include "cli/sections/plan_notes.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "core/text/part_text.h"
#include "simulator/costs/library_memory.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <memory>

namespace sextant {
namespace {

std::size_t count_runs(const PhysicalGraph& graph) {
  std::size_t runs = 0;
  for (const RankProgram& program : graph.programs) runs += program.order.size();
  return runs;
}

std::size_t count_guards(const PhysicalGraph& graph) {
  std::size_t guards = 0;
  for (const RankProgram& program : graph.programs) guards += program.guards.size();
  return guards;
}

void run_check(const JobArguments& arguments, const CommonOptions&, Console& console) {
  PlannedJob planned = load_planned_job(arguments);
  planned.plan.expand.checks = false;
  const ExpandedGraph expanded = expanded_graph(planned);
  const PhysicalGraph& graph = expanded.graph();
  require_fits(planned, graph);  // what does not is not worth a proof
  prove(expanded.shared_graph(), expanded.tables());
  const std::size_t guards = count_guards(graph);
  const DeviceMemory memory = device_memory(graph, planned.job.cluster);
  const Bytes beside = total(memory.libraries);
  console.say(fmt::format(
      "valid: {} in {}, {} per step of all classes", counted(graph.ranks.size(), "rank"),
      counted(graph.programs.size(), "class"), counted(count_runs(graph), "run")));
  console.say("cannot deadlock: one serial step completes and every counter returns to its start");
  console.say(fmt::format("bytes are ordered: {}, found again by the independent check",
                          counted(guards, "guard")));
  const Bytes tight = expanded.packed()[memory.program.index()].tight;
  const Bytes spent = std::max(memory.arena - tight, Bytes());  // longer lives may pack better
  console.say(fmt::format(
      "fits: {}{}{}", part_text(memory.needed(), memory.capacity),
      beside == Bytes(0) ? "" : fmt::format(", {} of them libraries", to_text(beside)),
      spent == Bytes() ? ""
                       : fmt::format(", {} so that guards delay the step less", to_text(spent))));
  const RankUse use = rank_use(planned.plan.strategy, planned.job.cluster);
  const std::vector<std::string> notes = check_notes(planned, use);
  for (const std::string& note : notes) console.say("note: " + note);
  console.document("check", {{"ranks", graph.ranks.size()},
                             {"rank_classes", graph.programs.size()},
                             {"runs", count_runs(graph)},
                             {"guards", guards},
                             {"peak_memory_bytes", memory.arena.value},
                             {"spent_memory_bytes", spent.value},
                             {"library_memory_bytes", beside.value},
                             {"device_memory_bytes", memory.capacity.value},
                             {"idle_devices", use.idle.size()},
                             {"axes", axes_json(use)},
                             {"notes", notes}});
}

}  // namespace

Verb check_verb() {
  const auto arguments = std::make_shared<JobArguments>();
  JobArguments& a = *arguments;
  return {.path = "check",
          .text = "Prove that a plan is whole, fits and cannot deadlock",
          .examples =
              "Examples:\n  sextant check plan.json\n"
              "  sextant check gpt2-124m -c dgx-h100:nodes=1 --strategy \"pp=4 schedule=zb-h1\" "
              "--global-batch 8",
          .options = job_options(a, true),
          .action = [arguments](const CommonOptions& common,
                                Console& console) { run_check(*arguments, common, console); },
          .keeps_freed_pages = true};
}

}  // namespace sextant
