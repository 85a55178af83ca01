// First contents of state registers, brought to the device.
#pragma once

#include "core/base/dtype.h"
#include "core/graphs/initial_contents.h"

#include <cstddef>

namespace sextant {

// The bits are those that the CPU backend stores: drawn on the host's cores in double, rounded once
// to the dtype. Copies are on the default stream.
void fill_on_device(const InitialContents& contents, DType dtype, std::byte* destination);

}  // namespace sextant
