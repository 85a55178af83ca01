// Tests that sample what they check take more of it, or all, where there is time: `./test.sh
// --long`.
#pragma once

#include <cstdlib>

namespace sextant {

inline bool is_long_run() { return std::getenv("SEXTANT_LONG") != nullptr; }

}  // namespace sextant
