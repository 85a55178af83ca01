// A physical graph as text for people and golden tests: blocks, then per program its instances with
// their slots, its order, guards and arena.
#pragma once

#include "core/graphs/physical_graph.h"

#include <string>

namespace sextant {

std::string to_text(const PhysicalGraph& graph);

}  // namespace sextant
