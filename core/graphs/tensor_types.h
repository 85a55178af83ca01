// Types of several tensors of a logical graph: what the functions of an operator ask for.
#pragma once

#include "core/graphs/logical_graph.h"

#include <vector>

namespace sextant {

// In the order of `tensors`.
std::vector<TensorType> types_of(const LogicalGraph& graph, const std::vector<TensorId>& tensors);

}  // namespace sextant
