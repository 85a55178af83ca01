// Softmax for model builders, in pieces that may be split over any dim.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>

namespace sextant {

// exp(x) over its sum along `dim` (negative: from the back), of any floating type. A row that is
// all -infinity, or has NaN, becomes NaN. Operators are named `name`.max, .sum_exp and `name`.
TensorId softmax(LogicalGraph& graph, TensorId x, std::int64_t dim, const std::string& name,
                 int layer);

}  // namespace sextant
