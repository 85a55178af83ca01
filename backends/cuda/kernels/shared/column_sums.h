// How sums over the rows of a matrix are divided over blocks (column_sums.cuh): host side.
#pragma once

#include "backends/cuda/kernels/shared/grid.h"

#include <cstddef>
#include <cstdint>

namespace sextant {

// Tiles of columns, chunks of rows.
struct ColumnSums {
  std::int64_t lanes = 0;  // along the columns
  std::int64_t width = 0;  // columns of a tile
  std::int64_t tiles = 0, chunks = 1;
  std::int64_t chunk_rows = 0;      // of each chunk but the last
  bool tiles_are_clusters = false;  // of kCluster larger blocks

  // A lane has `pack` neighbouring columns: 16 bytes where they are aligned, else 1. Chunks are no
  // more than run at once: one block too many would take a second wave.
  // Several matrices of one size have their tiles one behind the other.
  constexpr ColumnSums(std::int64_t rows, std::int64_t columns, std::int64_t pack,
                       std::int64_t sums, std::int64_t matrices = 1) {
    lanes = pack > 1 && rows >= kManyRows ? kNarrow : kWide;
    if (pack > 1 && rows <= kLeastRows && columns >= kProcessors * kWhole * pack) lanes = kWhole;
    width = lanes * pack;
    tiles = (columns + width - 1) / width * matrices;
    tiles_are_clusters = lanes == kNarrow && rows >= kRowsOfClusters && tiles <= kMostClusters &&
                         tiles >= (sums > 1 ? kLeastClustersOfTwo : kLeastClusters);
    const std::int64_t wanted = tiles == 0 ? 1 : kBlocks / tiles;
    const std::int64_t most = (rows + kLeastRows - 1) / kLeastRows;
    chunks = wanted < most ? wanted : most;
    if (chunks < 1) chunks = 1;
    if (tiles_are_clusters) chunks = kCluster;
    chunk_rows = (rows + chunks - 1) / chunks;
  }

  static constexpr int kNarrow = 8;   // lanes: 128 bytes of a row
  static constexpr int kWide = 32;    // of few rows, or single columns
  static constexpr int kWhole = 256;  // of few rows, and columns for all processors
  static constexpr int kBlocksOfProcessor = 4;
  static constexpr std::int64_t kManyRows = 256;
  static constexpr std::int64_t kBlocks = kBlocksOfProcessor * kProcessors;
  static constexpr std::int64_t kLeastRows = 64;  // of a chunk
  static constexpr std::int64_t kMostSums = 2;    // per column
  static constexpr std::int64_t kMostBytes = 32;  // of one sum of a lane's columns
  // Of the sums of all chunks, where there are several: of at most kBlocks tiles.
  static constexpr std::size_t kScratchBytes = kBlocks * kWide * kMostBytes * kMostSums;

  // As many blocks as the card portably runs together. Fewer tiles would leave processors without
  // work; more clusters, two blocks on a processor, would not all run at once: a group of 14 to 18
  // processors takes 3 or 4, and an H200 has at least 7 groups.
  static constexpr int kCluster = 8;
  // Two sums per column keep fewer rows in flight: 16 clusters took 33 us where the addition by the
  // last block takes 29 (16,384 x 1,024 bf16 on an H200), 25 clusters 23.1 for 23.7.
  static constexpr std::int64_t kLeastClusters = 12, kLeastClustersOfTwo = 20, kMostClusters = 28;
  static constexpr std::int64_t kRowsOfClusters = 2048;
};

}  // namespace sextant
