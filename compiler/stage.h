// Training graph + strategy -> staged graph: stages, words, boxing, ZeRO as words and rate.
#pragma once

#include "compiler/staged_graph.h"
#include "compiler/strategy.h"
#include "core/cost_model.h"
#include "sbp/inference.h"

#include <vector>

namespace sextant {

// Placement per stage: hierarchy [dp, tp], ranks tp fastest, then dp, then pp.
std::vector<Placement> make_placements(const Strategy& strategy);

// Stage of every layer: transformer layers (all but the first and last layer index) spread evenly,
// earlier stages get the remainder; the first layer (embedding) on stage 0, the last (head) on the
// last. Throws Error(kInfeasible): more stages than layers; first/last counts that leave layers
// over, saying how many.
std::vector<int> stage_of_layers(int num_layers, const Strategy& strategy);

// Words of parameters and inputs that the strategy implies (Megatron convention for tp from
// ParameterInfo; inputs split on the batch over dp; ZeRO-1 adds a dp split to the optimizer's
// copy). Checks divisibility where a split would cut a head: names the values that would do.
WordConstraints strategy_words(const LogicalGraph& training, const Strategy& strategy,
                               const std::vector<Placement>& placements,
                               const std::vector<int>& stage_of_layer);

StagedGraph make_staged_graph(const LogicalGraph& training, const Strategy& strategy,
                              std::int64_t micro_batches, const NetworkModel* network);

}  // namespace sextant
