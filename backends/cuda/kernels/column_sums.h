// How sums over the rows of a matrix are divided over blocks (reduce.cuh): host side.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sextant {

struct ColumnSums {
  std::int64_t tiles = 0;       // blocks along the columns
  std::int64_t chunks = 1;      // blocks along the rows
  std::int64_t chunk_rows = 0;  // rows of each chunk but the last

  // Columns come in units of `width`, 32 to a tile.
  constexpr ColumnSums(std::int64_t rows, std::int64_t columns, std::int64_t width) {
    tiles = (columns + 32 * width - 1) / (32 * width);
    // Not one block more than fit at once: it would take as long as all others together.
    const std::int64_t wanted = tiles == 0 || tiles > kBlocks ? 1 : kBlocks / tiles;
    const std::int64_t share = (rows + wanted - 1) / wanted;
    chunk_rows = (share + kStepRows - 1) / kStepRows * kStepRows;
    if (chunk_rows > 0) chunks = (rows + chunk_rows - 1) / chunk_rows;
  }

  static constexpr std::int64_t kBlocks = 4 * 132;  // four blocks on each processor of an H200
  // A chunk is a number of whole steps, four rows per warp at a time: what is left over would be
  // read row by row.
  static constexpr std::int64_t kStepRows = 32;
  static constexpr std::int64_t kMostSums = 2;    // per column
  static constexpr std::int64_t kMostBytes = 32;  // of the sums of a thread's columns
  // Of every use: several chunks there are only with less than kBlocks tiles.
  static constexpr std::size_t kScratchBytes = 2 * kBlocks * 32 * kMostBytes * kMostSums;
};

}  // namespace sextant
