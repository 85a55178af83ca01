// Where the state of a parameter is split over replicas that would all hold it (ZeRO).
#pragma once

#include "core/tensors/sbp.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sextant {

// Splits `words` of a tensor over mesh axes that hold copies, `parts` in all: along the first dim
// that nobody else splits and that they can fill; else inside another axis' split, so that the
// gather stays in the sub-groups of these axes; else along the largest dim.
void split_state(const Shape& shape, std::span<const std::size_t> axes, std::int64_t parts,
                 NdSbp& words);

}  // namespace sextant
