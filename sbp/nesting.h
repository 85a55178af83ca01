// Nesting positions of words while axes come and go. Internal to sbp/.
#pragma once

#include "core/tensors/sbp.h"

namespace sextant {

// With a position for every split, 1 = outermost.
NdSbp numbered(const NdSbp& words);
// Of words whose splits all have positions: these count from 1 again, in the order they have;
// canonical.
NdSbp renumbered(const NdSbp& words);

}  // namespace sextant
