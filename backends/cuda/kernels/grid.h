// How many blocks a launch asks for.
#pragma once

#include <cstdint>

namespace sextant {

// Enough to fill any card many times over; kernels walk what is beyond it.
inline constexpr std::int64_t kMostBlocks = 1 << 20;

inline unsigned limited(std::int64_t blocks) {
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace sextant
