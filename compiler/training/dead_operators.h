// Operators that nothing depends on.
#pragma once

#include "core/graphs/logical_graph.h"

namespace sextant {

// The training graph without operators whose results nobody reads and that have no effect: what is
// kept updates state, runs on the host, or leads to such an operator or to the loss. Parameters
// stay, read or not: they are state.
LogicalGraph without_dead_operators(LogicalGraph training);

}  // namespace sextant
