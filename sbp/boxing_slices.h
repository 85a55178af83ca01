// Boxing between two large meshes that mostly agree: planned for one slice, done by all alike.
#pragma once

#include "sbp/boxing.h"

#include <cstdint>

namespace sextant {

// Devices of one placement up to which `plan_large_boxing` searches everything.
inline constexpr std::int64_t kLargestSearchedMesh = 256;

// As `plan_boxing` while the placements are small. Where two different placements have equal
// hierarchies and more than `largest` devices each, the axes that say the same on both sides cut
// the problem into slices: devices with other coordinates there have nothing to give. One slice is
// planned and its steps run in all of them. What is left too large goes over in one transfer, or
// changes its words on one side and crosses under equal words, whichever is cheapest.
//
// The plan is right, and the cheapest of those in which slices do not help each other. Refuses what
// `plan_boxing` refuses.
BoxingPlan plan_large_boxing(const BoxingRequest& request,
                             std::int64_t largest = kLargestSearchedMesh);

}  // namespace sextant
