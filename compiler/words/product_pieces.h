// Products whose sum is pending over tp, cut into pieces, so that the collective of one piece runs
// beside the product of the next (Wang et al., ASPLOS 2023: overlap by decomposition).
#pragma once

#include "compiler/strategy/strategy.h"
#include "compiler/words/stage.h"
#include "core/graphs/logical_graph.h"
#include "sbp/inference.h"

#include <vector>

namespace sextant {

// A training graph and what the strategy says of its tensors.
struct GraphWithWords {
  LogicalGraph graph;
  StrategyWords words;
};

// Cuts by role, not by name: `inferred`, the words of the graph as it is, show which products (and
// sums of products) are partial over tp and read in other words by everyone. Each is made in
// `strategy.pieces` pieces along the last dim but one, boxed piece by piece and joined; where the
// boxed value is split along that dim, every part of it is cut, so that the pieces of a part stay
// on its device. Whole stays what the user pinned, what has another stage for a reader, and
// backward where weight gradients of the same cell hide its collectives anyway.
// Throws Error(kInfeasible) naming operator and extents when a dim has fewer elements than pieces
// or parts that differ, and when there is nothing to cut.
GraphWithWords cut_products(const LogicalGraph& training, const Strategy& strategy,
                            const std::vector<int>& stage_of_layer, const WordAssignment& inferred,
                            const StrategyWords& words);

}  // namespace sextant
