// Look-ups in program, instance and block.

#include "simulator/steps/run_facts.h"

#include <algorithm>

namespace sextant {

const Actor& first_actor_of(const PhysicalGraph& graph, Rank rank, RunId run) {
  const RankProgram& program = graph.program_of(rank);
  const Run& entry = program.order[run];
  const Block& block = graph.block_of(program.instances[entry.instance]);
  return block.actors[static_cast<std::size_t>(entry.first_actor)];
}

bool is_optimizer(const PhysicalGraph& graph, Rank rank, RunId run) {
  return first_actor_of(graph, rank, run).phase == Phase::kOptimizer;
}

std::vector<RankTimeline> empty_timelines(const std::vector<Rank>& ranks,
                                          const RankClasses& classes) {
  std::vector<std::int64_t> sizes(classes.size());
  for (const std::int32_t rank_class : classes.class_of)
    ++sizes[static_cast<std::size_t>(rank_class)];
  std::vector<RankTimeline> timelines;
  for (const Rank rank : ranks) {
    RankTimeline timeline;
    timeline.rank = rank;
    timeline.ranks = sizes[static_cast<std::size_t>(classes.class_of[rank.index()])];
    timelines.push_back(std::move(timeline));
  }
  return timelines;
}

}  // namespace sextant
