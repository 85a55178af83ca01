// How many blocks a launch asks for.
#pragma once

#include <cstdint>

namespace sextant {

// Enough to fill any card many times over; kernels walk what is beyond it.
inline constexpr std::int64_t kMostBlocks = 1 << 20;
// Of a grid's first dim: for kernels that do not walk.
inline constexpr std::int64_t kGridLimit = 0x7FFFFFFF;

inline unsigned limited(std::int64_t blocks, std::int64_t most = kMostBlocks) {
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

inline unsigned blocks_for(std::int64_t items, std::int64_t per_block,
                           std::int64_t most = kMostBlocks) {
  return limited((items + per_block - 1) / per_block, most);
}

// Multiprocessors of an H200, for kernels that want one wave of blocks. A constant, so that sums
// are cut alike on all cards.
inline constexpr std::int64_t kProcessors = 132;

// Blocks of `rows_of_block` rows each.
inline unsigned row_blocks(std::int64_t rows, int rows_of_block) {
  return blocks_for(rows, rows_of_block, kGridLimit);
}

}  // namespace sextant
