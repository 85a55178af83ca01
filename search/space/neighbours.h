// Strategies that differ from a good one in one choice, or in one factor that moves from one axis
// of the mesh to another: where a better one often is.
#pragma once

#include "search/space/space.h"

#include <vector>

namespace sextant {

// Leaves of the space, without `from`; `meshes` are the space's.
std::vector<Strategy> neighbours_in(const StrategySpace& space,
                                    const std::vector<SpaceNode>& meshes, const Strategy& from);

}  // namespace sextant
