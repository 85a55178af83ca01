// Scaled rotary positions as attributes of `rope`; none where nothing is scaled.
#pragma once

#include "core/operators/layers/rotary.h"
#include "core/tensors/attributes.h"

namespace sextant {

RotaryScaling rotary_scaling(const Attributes& attributes);
void add_scaling(const RotaryScaling& scaling, Attributes& attributes);

}  // namespace sextant
