// Recomputation as Megatron-LM and torch.utils.checkpoint do it: forward of a checkpointed layer
// runs again as a whole, also what no gradient reads (its last product and residual sum). Our own
// recomputation (compiler/training/recompute.h) leaves that out.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"

#include <cstdint>

namespace sextant {

// `recompute=full` as those programs mean it: every block, but neither embedding nor head.
Strategy with_blocks_recomputed(Strategy strategy, std::int64_t layers);

// A training graph whose blocks are recomputed, with the rest of their forward operators repeated
// behind what is repeated already.
LogicalGraph with_whole_layers_repeated(const LogicalGraph& training);

}  // namespace sextant
