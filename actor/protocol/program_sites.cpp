// Sites: the finest pieces that the runs cut the actors of an instance into.
#include "actor/protocol/program_parts.h"
#include "core/base/at.h"
#include "core/base/check.h"

namespace sextant {
namespace {

// Where each instance begins in the rows of all actors and of all frames.
ActorNumbers numbered_instances(const ProgramSource& source) {
  ActorNumbers numbers;
  std::int32_t num_actors = 0, num_frames = 0;
  for (const Instance& instance : source.program.instances) {
    require(instance.block.is_valid() && instance.block.index() < source.graph.blocks.size(),
            kBadProgram, "instance '{}' has no block", instance.name);
    require(instance.acts_per_step >= 1, kBadProgram, "instance '{}' acts {} times per step",
            instance.name, instance.acts_per_step);
    const Block& block = source.graph.block_of(instance);
    require(instance.frames.size() == block.frames.size(), kBadProgram,
            "instance '{}' binds {} frames, its block has {}", instance.name,
            instance.frames.size(), block.frames.size());
    numbers.first_actor.push_back(num_actors);
    numbers.first_frame.push_back(num_frames);
    num_actors += static_cast<std::int32_t>(block.actors.size());
    num_frames += static_cast<std::int32_t>(block.frames.size());
  }
  numbers.site_of_actor.resize(at(num_actors));
  return numbers;
}

// Texts of runs are only made where they are wanted.
void check_run(const ProgramSource& source, RunId index) {
  const Run& run = source.program.order[index];
  require(holds(source.program.instances, run.instance), kBadProgram, "run {} has no instance",
          index);
  const Block& block = source.block(run.instance);
  const auto actors = static_cast<std::int32_t>(block.actors.size());
  require(run.num_actors >= 1 && run.first_actor >= 0 && run.first_actor <= actors &&
              run.num_actors <= actors - run.first_actor,
          kBadProgram, "run {}: actors {} .. {} of '{}', which has {}", index, run.first_actor,
          static_cast<std::int64_t>(run.first_actor) + run.num_actors - 1,
          source.name(run.instance), actors);
  for (std::int32_t a = run.first_actor; a < run.first_actor + run.num_actors; ++a) {
    const Actor& actor = block.actors[at(a)];
    if (actor.queue != block.actors[at(run.first_actor)].queue) {
      fail(kBadProgram, "{}: actors of one run are on one queue, '{}' is on {}", source.text(index),
           actor.name, to_string(actor.queue));
    }
    if (actor.queue == QueueRole::kHost) {
      fail(kBadProgram, "{}: host actors are not in the issue order", source.text(index));
    }
    if (actor.communication && run.num_actors != 1) {
      fail(kBadProgram, "{}: a communication is a run of its own", source.text(index));
    }
  }
}

void add_site(const ProgramSource& source, InstanceId instance, std::int32_t actor, QueueRole queue,
              ProgramTables& tables) {
  Site site;
  site.instance = instance;
  site.first_actor = actor;
  site.queue = queue;
  site.acts_per_step = source.program.instances[instance].acts_per_step;
  if (site.is_host()) {
    tables.host_sites.push_back(tables.sites.next_key());
  }
  tables.sites.push_back(site);
}

}  // namespace

ActorNumbers add_sites(const ProgramSource& source, ProgramTables& tables) {
  ActorNumbers numbers = numbered_instances(source);
  std::vector<bool> cut(numbers.site_of_actor.size() + 1, false);
  for (const RunId r : source.program.order.keys()) {
    check_run(source, r);
    const Run& run = source.program.order[r];
    const std::int32_t first = numbers.first_actor[run.instance] + run.first_actor;
    cut[at(first)] = true;
    cut[at(first + run.num_actors)] = true;
  }
  for (const InstanceId i : source.program.instances.keys()) {
    const Block& block = source.graph.block_of(source.program.instances[i]);
    for (std::size_t a = 0; a < block.actors.size(); ++a) {
      const QueueRole queue = block.actors[a].queue;
      const bool begins = a == 0 || cut[at(numbers.first_actor[i]) + a] ||
                          queue == QueueRole::kHost ||
                          block.actors[a - 1].queue == QueueRole::kHost;
      if (begins) add_site(source, i, static_cast<std::int32_t>(a), queue, tables);
      ++tables.sites.back().num_actors;
      numbers.site_of_actor[at(numbers.first_actor[i]) + a] = tables.sites.next_key().plus(-1);
    }
  }
  return numbers;
}

}  // namespace sextant
