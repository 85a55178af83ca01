// Appends dropout to a graph, so that no two of its masks are the same.
#pragma once

#include "core/graphs/logical_graph.h"

#include <string>

namespace sextant {

// x with elements dropped with probability `rate` and the others scaled up. `name` is the
// operator's; the stream of its mask is the name without the layer that it begins with.
TensorId add_dropout(LogicalGraph& graph, std::string name, int layer, TensorId x, double rate);

}  // namespace sextant
