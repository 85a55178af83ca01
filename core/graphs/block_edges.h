// Edges and port readers of a block as its actors' operands make them.
#pragma once

#include "core/graphs/physical_graph.h"

namespace sextant {

// Adds an edge per actor and register that it reads, and the actor to the readers of each port that
// it reads: actors in order, a value that an actor reads several times once, each content for one
// act. Operands that name nothing are passed over.
void add_edges_of_operands(Block& block);

}  // namespace sextant
