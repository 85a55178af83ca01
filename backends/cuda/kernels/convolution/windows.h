// Convolutions and pools over windows of any number of spatial dims, callable from C++. Positions
// are global: what lies in another part is left to it.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

inline constexpr int kMostSpatialDims = 14;

struct CudaWindowDim {
  std::int64_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  std::int64_t x_offset = 0, x_extent = 1;  // of the box of x
  std::int64_t y_offset = 0, y_extent = 1;
  std::int64_t x_global = 1;  // extent of all of x, for means
};

struct CudaWindows {
  int rank = 0;
  CudaWindowDim dims[kMostSpatialDims];
  std::int64_t x_positions = 1, y_positions = 1, taps = 1;  // per channel
};

// Which of the three tensors of a convolution is made of the two others.
enum class CudaConvMade { kY, kX, kW };

// x [n, channels, ...], w [outputs, channels / groups, ...], y [n, outputs, ...].
struct CudaConv {
  CudaWindows windows;
  std::int64_t n = 0, channels = 0, outputs = 0, groups = 1;
  const void* x = nullptr;  // of all but the gradient of the input
  const void* w = nullptr;
  const void* y = nullptr;  // dy of the gradients
  void* to = nullptr;
  DType type = DType::kF32, to_type = DType::kF32;
  bool accumulate = false;
  // x and y lie [n, ..., channels]; w is row-major. cuDNN's alone.
  bool x_channels_last = false, y_channels_last = false;
};
cudaError_t enqueue_conv(const CudaConv& conv, cudaStream_t stream);
cudaError_t enqueue_conv_grad_input(const CudaConv& conv, cudaStream_t stream);
cudaError_t enqueue_conv_grad_weight(const CudaConv& conv, cudaStream_t stream);

// What was made in another type, or is to be added.
struct CudaConvResult {
  const void* from = nullptr;
  DType from_type = DType::kF32;
  void* to = nullptr;
  DType to_type = DType::kF32;
  std::int64_t elements = 0;
  bool accumulate = false;
};
cudaError_t enqueue_conv_result(const CudaConvResult& result, cudaStream_t stream);

struct CudaPool {
  CudaWindows windows;
  std::int64_t planes = 0;  // channels of all samples
  const void* x = nullptr;
  const void* dy = nullptr;
  void* to = nullptr;
  DType type = DType::kF32, to_type = DType::kF32;
  bool count_padding = false, accumulate = false;
  std::int64_t samples = 0;
  bool channels_last = false;  // all tensors
};
cudaError_t enqueue_max_pool(const CudaPool& pool, cudaStream_t stream);
cudaError_t enqueue_avg_pool(const CudaPool& pool, cudaStream_t stream);
cudaError_t enqueue_max_pool_grad(const CudaPool& pool, cudaStream_t stream);
cudaError_t enqueue_avg_pool_grad(const CudaPool& pool, cudaStream_t stream);
// Maxima over one or two spatial dims where bands of rows fit into shared memory; forward without
// dy, the gradient with it. Of tensors that lie channels-last in 16 bits, channels by eights.
bool is_max_of_planes(const CudaPool& pool);
cudaError_t enqueue_max_of_planes(const CudaPool& pool, cudaStream_t stream);

}  // namespace sextant
