// The tables of a program from its parts, whose checks make the counters of the protocol safe to
// run on any graph; and texts of what they hold.
#include "actor/protocol/program_tables.h"

#include "actor/protocol/program_parts.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <fmt/core.h>

#include <utility>

namespace sextant {

ProgramTables::ProgramTables(const PhysicalGraph& graph, ProgramId program) {
  const ProgramSource source{graph, program, graph.programs[program]};
  const ActorNumbers numbers = add_sites(source, *this);
  add_runs(source, numbers, *this);
  const Writers writers = add_frames(source, numbers, *this);
  add_channels(source, numbers, writers, *this);
  add_guards(source, *this);
}

ProgramTables::ProgramTables(const PhysicalGraph& graph, ProgramId program, ProgramTables unguarded)
    : ProgramTables(std::move(unguarded)) {
  require(guards.empty(), ErrorCode::kUsage, "these tables of program '{}' have guards already",
          graph.programs[program].name);
  add_guards({graph, program, graph.programs[program]}, *this);
}

std::string actors_to_text(const PhysicalGraph& graph, ProgramId program, InstanceId instance,
                           std::int32_t first_actor, std::int32_t num_actors) {
  const Instance& owner = graph.programs[program].instances[instance];
  const std::string& first = graph.actor_name(owner, first_actor);
  if (num_actors == 1) return fmt::format("{}[{}]", owner.name, first);
  const std::string& last = graph.actor_name(owner, first_actor + num_actors - 1);
  return fmt::format("{}[{} .. {}]", owner.name, first, last);
}

std::string run_to_text(const PhysicalGraph& graph, ProgramId program, RunId run) {
  const Run& entry = graph.programs[program].order[run];
  const Block& block = graph.block_of(graph.programs[program].instances[entry.instance]);
  return fmt::format(
      "run {}: {} act {} on {}", run.value,
      actors_to_text(graph, program, entry.instance, entry.first_actor, entry.num_actors),
      entry.act, to_string(block.actors[at(entry.first_actor)].queue));
}

}  // namespace sextant
