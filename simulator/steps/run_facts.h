// Small questions about a run that both modes ask.
#pragma once

#include "actor/protocol/rank_classes.h"
#include "core/graphs/physical_graph.h"
#include "simulator/steps/timeline.h"

#include <vector>

namespace sextant {

const Actor& first_actor_of(const PhysicalGraph& graph, Rank rank, RunId run);
bool is_optimizer(const PhysicalGraph& graph, Rank rank, RunId run);

// One timeline without runs per rank that is simulated, knowing for how many ranks it stands.
std::vector<RankTimeline> empty_timelines(const std::vector<Rank>& ranks,
                                          const RankClasses& classes);

}  // namespace sextant
