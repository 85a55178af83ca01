// Sums over the rows of a matrix: the gradient of a bias.
#pragma once

#include "core/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// How the sums are divided over blocks: tiles of columns, chunks of rows.
struct BiasTiles {
  std::int64_t lanes = 0;  // along the columns
  std::int64_t width = 0;  // columns of a tile
  std::int64_t tiles = 0, chunks = 1;
  std::int64_t chunk_rows = 0;  // of each chunk but the last

  // A lane has `pack` neighbouring columns; 1 where they are not aligned. Chunks are no more than
  // run at once: one block too many would take a second wave.
  constexpr BiasTiles(std::int64_t rows, std::int64_t columns, std::int64_t pack) {
    lanes = pack > 1 && rows >= kManyRows ? kNarrow : kWide;
    width = lanes * pack;
    tiles = (columns + width - 1) / width;
    const std::int64_t wanted = tiles == 0 ? 1 : kBlocks / tiles;
    const std::int64_t most = (rows + kLeastRows - 1) / kLeastRows;
    chunks = wanted < most ? wanted : most;
    if (chunks < 1) chunks = 1;
    chunk_rows = (rows + chunks - 1) / chunks;
  }

  static constexpr int kNarrow = 8;  // lanes: 128 bytes of a row
  static constexpr int kWide = 32;   // of few rows, or single columns
  static constexpr std::int64_t kManyRows = 256;
  static constexpr std::int64_t kBlocks = 4 * 132;  // four blocks on each processor of an H200
  static constexpr std::int64_t kLeastRows = 64;    // of a chunk
  // Of the sums of all chunks, where there are several: of at most kBlocks tiles.
  static constexpr std::int64_t kScratchBytes = kBlocks * kWide * 32;
};

struct ReduceToBiasArguments {
  DType dtype = DType::kF32, out_dtype = DType::kF32;  // floating
  const void* dy = nullptr;                            // [rows, columns]
  void* bias = nullptr;                                // [columns]
  void* scratch = nullptr;                             // BiasTiles::kScratchBytes
  // One per tile, 0 before and after every launch: the chunks of the tile that are summed.
  std::uint32_t* finished = nullptr;
  bool accumulate = false;
  std::int64_t rows = 0, columns = 0;
  std::int64_t pack = 1;  // columns of a lane: 16 bytes where dy and its rows are aligned
};

cudaError_t enqueue_reduce_to_bias(const ReduceToBiasArguments& arguments, cudaStream_t stream);

}  // namespace sextant
