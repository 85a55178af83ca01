// Which ids reach the operators that count with them: those that an input of the graph lets in,
// seen through operators that only move, join or bound integers. Ids that are computed in other
// ways are known to the kernels alone.
#pragma once

#include "core/graphs/logical_graph.h"

namespace sextant {

// Throws Error(kBadInput) naming operator and input where an input lets in ids that the operator
// has no class, row or place for: its `limit` is too high or missing, or it ignores another label.
void require_ids_in_range(const LogicalGraph& graph);

}  // namespace sextant
