// Argmax and argmin for model builders, in pieces that may be split over any dim.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>

namespace sextant {

// i64 index along `dim` (negative: from the back) of the largest or smallest element, the first of
// equal ones; the first NaN where there is one. The dim vanishes. Throws Error(kBadInput) for a dim
// without elements. Operators are named `name`.value and `name`.
TensorId argmax(LogicalGraph& graph, TensorId x, std::int64_t dim, const std::string& name,
                int layer);
TensorId argmin(LogicalGraph& graph, TensorId x, std::int64_t dim, const std::string& name,
                int layer);

}  // namespace sextant
