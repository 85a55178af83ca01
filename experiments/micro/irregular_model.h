// A model in which nothing repeats: every operator has shapes of its own, and inputs from near and
// far. What a compiler gains from equal layers is of no use on it.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>

namespace sextant {

// Forward graph with loss whose training graph has at least `operators` operators; equal for equal
// seeds. Layers of 1 to 40 operators.
LogicalGraph irregular_model(std::int64_t operators, std::uint64_t seed);

}  // namespace sextant
