// Bandwidths of a collective as nccl-tests defines them (GLOSSARY: algorithm_bandwidth,
// bus_bandwidth). Sizes are of the tensor that is global to the group: all_gather and
// reduce_scatter count the whole, not one member's part.
#pragma once

#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>

namespace sextant {

// bus_bandwidth / algorithm_bandwidth over `members` (at least one): what each member's link
// carries per byte of the tensor. all_reduce 2 (n-1)/n; all_gather, reduce_scatter and all_to_all
// (n-1)/n; broadcast, shift and transfer 1. Of one member, where nothing moves: 0, and 1.
double bus_bandwidth_factor(Primitive primitive, std::int64_t members);

// Both in B/s; throw Error(kUsage) for a duration that is not positive.
BytesPerSecond algorithm_bandwidth(Bytes size, Duration duration);
BytesPerSecond bus_bandwidth(Primitive primitive, std::int64_t members, Bytes size,
                             Duration duration);

}  // namespace sextant
