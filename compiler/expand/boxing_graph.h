// One boxing as a physical graph: a tensor under the words of the source on its placement, and in
// the end under those of the target on the other. Runs on every device, like a training step.
#pragma once

#include "core/graphs/physical_graph.h"
#include "sbp/boxing.h"

#include <span>

namespace sextant {

// Ranks are those of the placements; ranks below the largest that are in neither of them idle. Each
// rank of the source has a host actor of kind `input` that writes its part, each rank of the target
// one of kind `output` that reads it (boxing_host.h brings and takes the bytes). Between them the
// steps, one actor each: `box_local`, `cast`, and communications in the groups of the step.
//
// Throws Error(kUsage) when the steps do not lead from the request's source to its target.
PhysicalGraph make_boxing_graph(const BoxingRequest& request, std::span<const BoxingStep> steps);

}  // namespace sextant
