// Sums over programs and timelines.
#include "experiments/accuracy/peer_models.h"

#include <algorithm>

namespace sextant {
namespace {

const Actor& first_actor(const PhysicalGraph& graph, const RankProgram& program, const Run& run) {
  const Instance& instance = program.instances[run.instance.index()];
  return graph.block_of(instance).actors[static_cast<std::size_t>(run.first_actor)];
}

}  // namespace

std::set<const Communication*> once_per_step(const PhysicalGraph& graph) {
  std::set<const Communication*> found;
  for (const Block& block : graph.blocks)
    for (const Actor& actor : block.actors)
      if (actor.communication && actor.phase == Phase::kOptimizer)
        found.insert(&*actor.communication);
  return found;
}

void WithFree::complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                        std::span<Time> done) const {
  if (!free_.contains(cost.communication)) return base_.complete(cost, arrivals, done);
  if (arrivals.empty()) return;
  std::fill(done.begin(), done.end(), *std::max_element(arrivals.begin(), arrivals.end()));
}

Duration busiest(const PhysicalGraph& graph, const Timeline& timeline,
                 const std::set<const Communication*>& communications) {
  Duration most;
  for (const RankTimeline& rank : timeline.ranks) {
    const RankProgram& program = graph.program_of(rank.rank);
    Duration sum;
    for (const TimedRun& timed : rank.runs) {
      const Actor& actor = first_actor(graph, program, program.order[timed.run.index()]);
      if (actor.communication && communications.contains(&*actor.communication))
        sum += timed.end - timed.arrived;
    }
    most = std::max(most, sum);
  }
  return most;
}

double operators_per_run(const PhysicalGraph& graph) {
  double operators = 0, runs = 0;
  for (const RankProgram& program : graph.programs)
    for (const Run& run : program.order) {
      operators += run.num_actors;
      ++runs;
    }
  return runs > 0 ? operators / runs : 1;
}

}  // namespace sextant
