// A graph that says itself where it runs: the paper's program of placements, words and to_global,
// without a strategy.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/costs/cost_model.h"
#include "core/files/logical_graph_json.h"

#include <cstdint>

namespace sextant {

// Stages, words and boxing of the graph as it is: neither gradients nor an optimizer are added.
// What has no words in the document gets them by inference. `network` and `cost` decide between
// boxings as in make_staged_graph (stage.h). Throws Error(kUsage) for a document without
// placements, Error(kInfeasible) naming the operator and its candidates when no row fits the words.
StagedGraph stage_program(const GraphDocument& document, std::int64_t micro_batches,
                          const NetworkModel* network, const CostModel* cost = nullptr);

}  // namespace sextant
