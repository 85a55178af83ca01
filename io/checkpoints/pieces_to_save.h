// Who writes what: every box of every state once, whoever else holds it.
#pragma once

#include "core/graphs/physical_graph.h"
#include "core/graphs/state_registers.h"

#include <vector>

namespace sextant {

// By rank, in the order of state_registers. Of several ranks that hold a box the one with the
// fewest bytes so far gets it. Boxes without elements are left out, unless the whole state has
// none. Throws Error(kInternal) where the boxes of a state overlap or leave something out.
std::vector<std::vector<StateRegister>> pieces_to_save(const PhysicalGraph& graph);

}  // namespace sextant
