// How many blocks a launch asks for.
#pragma once

#include <cstdint>

namespace sextant {

// Enough to fill any card many times over; kernels walk what is beyond it.
inline constexpr std::int64_t kMostBlocks = 1 << 20;

inline unsigned limited(std::int64_t blocks) {
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

// Multiprocessors of an H200, for kernels that want one wave of blocks. A constant, so that sums
// are cut alike on all cards.
inline constexpr std::int64_t kProcessors = 132;

// Blocks of `rows_of_block` rows each.
inline unsigned row_blocks(std::int64_t rows, int rows_of_block) {
  constexpr std::int64_t kMost = 0x7FFFFFFF;  // gridDim.x
  const std::int64_t blocks = (rows + rows_of_block - 1) / rows_of_block;
  return static_cast<unsigned>(blocks < kMost ? blocks : kMost);
}

}  // namespace sextant
