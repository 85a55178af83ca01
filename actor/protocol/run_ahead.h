// How far the host runs ahead of a device (invariant 9): what the runtime, the tape and every mode
// of simulation start from, so that they wait alike.
#pragma once

#include <cstdint>

namespace sextant {

inline constexpr std::int64_t kRunAheadLaunches = 256;  // unfinished ones per queue
inline constexpr std::int64_t kRunAheadSteps = 2;

}  // namespace sextant
