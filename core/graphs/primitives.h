// All primitives, for loops and for reading their names.
#pragma once

#include "core/graphs/physical_graph.h"

#include <array>

namespace sextant {

inline constexpr std::array kPrimitives = {
    Primitive::kAllReduce, Primitive::kAllGather, Primitive::kReduceScatter, Primitive::kAllToAll,
    Primitive::kBroadcast, Primitive::kShift,     Primitive::kTransfer};

}  // namespace sextant
