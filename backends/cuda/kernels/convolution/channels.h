// Norms with a statistic per channel, callable from C++: batch norms, forward in two passes over x,
// gradients in two over x and dy, with an addition and a relu around them. Elements are of `dtype`
// (f32, bf16 or f16) in whole packs of 16 bytes, statistics and gradients of weights f32.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

// Elements as [rows, columns]; column / run is the channel. Of [N, C, H, W] rows are samples and a
// run is an image; of a channels-last tensor rows are positions and a run is 1.
struct ChannelMap {
  std::int64_t rows = 0, columns = 0, run = 1;
  // A block sums a chunk of the rows of a tile of columns: `lanes` packs along a row, a power of
  // two; the other threads along the rows.
  std::int64_t lanes = 1, tiles = 0, chunks = 1, chunk_rows = 0;
  std::int64_t slots = 1;  // channels of a tile at most

  ChannelMap() = default;
  ChannelMap(std::int64_t rows, std::int64_t columns, std::int64_t run, std::int64_t pack);
  std::int64_t channels() const { return columns / run; }
  // Two sums per channel, tile and chunk.
  std::size_t partial_bytes() const {
    return static_cast<std::size_t>(chunks * tiles * slots) * 2 * sizeof(float);
  }
};

// Results that are null are not wanted, here and below.
struct ChannelStatistics {
  ChannelMap map;
  DType dtype = DType::kF32;
  const void* x = nullptr;
  float *mean = nullptr, *squares = nullptr;  // squares of x - mean, summed
  // Of what is here alone, for ChannelSquares.
  float *own_mean = nullptr, *own_squares = nullptr;
  double share = 1;              // of all ranks' elements, those that are here: `mean` is times it
  const float* about = nullptr;  // instead of this rank's mean, squares are of x - about
  float* variance = nullptr;     // squares x scale
  float *shifted = nullptr, *rstd = nullptr;  // variance + epsilon, and its reciprocal root
  double scale = 1, epsilon = 0;
  void* partial = nullptr;  // ChannelMap::partial_bytes
};
cudaError_t enqueue_channel_statistics(const ChannelStatistics& arguments, cudaStream_t stream);

// Squares of x - about, summed, from those about the mean of so many elements.
struct ChannelSquares {
  std::int64_t channels = 0;
  double elements = 0;  // of each channel
  const float *own_mean = nullptr, *own_squares = nullptr, *about = nullptr;
  float* squares = nullptr;
};
cudaError_t enqueue_channel_squares(const ChannelSquares& arguments, cudaStream_t stream);

// y = (x - mean) rstd gamma + beta + other, or the larger of that and 0.
struct ChannelNorm {
  ChannelMap map;
  DType dtype = DType::kF32;
  const void *x = nullptr, *gamma = nullptr, *beta = nullptr;
  const void* other = nullptr;  // or none
  const float *mean = nullptr, *rstd = nullptr;
  void* y = nullptr;
  bool has_relu = false;
};
cudaError_t enqueue_channel_norm(const ChannelNorm& arguments, cudaStream_t stream);

// g = dy where `activated` is above 0, else 0; dgamma the sum of g (x - mean) rstd, dbeta that of
// g.
struct ChannelGradSums {
  ChannelMap map;
  DType dtype = DType::kF32;
  const void *x = nullptr, *dy = nullptr;
  const void* activated = nullptr;  // none: g = dy
  const float *mean = nullptr, *rstd = nullptr;
  void* g = nullptr;
  float *dgamma = nullptr, *dbeta = nullptr;
  bool adds_dgamma = false, adds_dbeta = false;
  void* partial = nullptr;
};
cudaError_t enqueue_channel_grad_sums(const ChannelGradSums& arguments, cudaStream_t stream);

// dx = rstd gamma (g - dbeta / count - (x - mean) rstd dgamma / count).
struct ChannelGradInput {
  ChannelMap map;
  DType dtype = DType::kF32;
  const void *x = nullptr, *dy = nullptr, *gamma = nullptr;
  const void* activated = nullptr;
  const float *mean = nullptr, *rstd = nullptr, *dgamma = nullptr, *dbeta = nullptr;
  void* dx = nullptr;
  double count = 1;
};
cudaError_t enqueue_channel_grad_input(const ChannelGradInput& arguments, cudaStream_t stream);

}  // namespace sextant
