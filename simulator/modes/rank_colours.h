// What the cost model says about ranks that the graph does not: ranks of one colour compute equally
// fast. Input of the folding (actor/protocol/rank_classes.h).
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

inline std::vector<std::int32_t> rank_colours(const PhysicalGraph& graph, const CostModel& cost) {
  std::vector<std::int32_t> colours;
  colours.reserve(graph.ranks.size());
  for (const Rank rank : graph.ranks.keys()) colours.push_back(cost.colour_of(rank));
  return colours;
}

}  // namespace sextant
