// First contents of state registers: a function of (seed, parameter name, global element index), so
// that any plan, device count and device starts from the same bits.
#pragma once

#include "core/ids.h"
#include "core/physical_graph.h"

#include <cstdint>
#include <vector>

namespace sextant {

// The rank's part of output `output` of `writer`, row-major. The first output of an actor with the
// attribute `init` (zeros, ones, constant with `init_value`, normal with `init_std`; keyed by the
// attribute `parameter`, or the actor's name) is a parameter; all other state starts at zero.
std::vector<double> initial_contents(const PhysicalGraph& graph, Rank rank, const Register& reg,
                                     const Actor& writer, std::size_t output, std::uint64_t seed);

}  // namespace sextant
