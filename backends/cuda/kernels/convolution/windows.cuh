// Walking the taps of windows in device code: which position a window reads, which windows read a
// position.
#pragma once

#include "backends/cuda/kernels/convolution/windows.h"

namespace sextant {

// Local position of x that tap `tap` of window `y` reads; -1 in padding and in other parts.
__device__ __forceinline__ std::int64_t position_read(const CudaWindows& w, std::int64_t y,
                                                      std::int64_t tap) {
  std::int64_t position = 0, step = 1;
  for (int dim = w.rank - 1; dim >= 0; --dim) {
    const CudaWindowDim& d = w.dims[dim];
    const std::int64_t window = y % d.y_extent, offset = tap % d.kernel;
    y /= d.y_extent;
    tap /= d.kernel;
    const std::int64_t at =
        (d.y_offset + window) * d.stride - d.padding + offset * d.dilation - d.x_offset;
    if (at < 0 || at >= d.x_extent) return -1;
    position += at * step;
    step *= d.x_extent;
  }
  return position;
}

// Local window that reads position `x` by its tap `tap`; -1 where there is none here.
__device__ __forceinline__ std::int64_t window_reading(const CudaWindows& w, std::int64_t x,
                                                       std::int64_t tap) {
  std::int64_t window = 0, step = 1;
  for (int dim = w.rank - 1; dim >= 0; --dim) {
    const CudaWindowDim& d = w.dims[dim];
    const std::int64_t position = d.x_offset + x % d.x_extent, offset = tap % d.kernel;
    x /= d.x_extent;
    tap /= d.kernel;
    const std::int64_t strided = position + d.padding - offset * d.dilation;
    if (strided < 0 || strided % d.stride != 0) return -1;
    const std::int64_t at = strided / d.stride - d.y_offset;
    if (at < 0 || at >= d.y_extent) return -1;
    window += at * step;
    step *= d.y_extent;
  }
  return window;
}

// Positions of window `y` inside the global tensor.
__device__ __forceinline__ std::int64_t count_inside(const CudaWindows& w, std::int64_t y) {
  std::int64_t count = 1;
  for (int dim = w.rank - 1; dim >= 0; --dim) {
    const CudaWindowDim& d = w.dims[dim];
    const std::int64_t first = (d.y_offset + y % d.y_extent) * d.stride - d.padding;
    y /= d.y_extent;
    std::int64_t inside = 0;
    for (std::int64_t offset = 0; offset < d.kernel; ++offset) {
      const std::int64_t at = first + offset * d.dilation;
      inside += at >= 0 && at < d.x_global ? 1 : 0;
    }
    count *= inside;
  }
  return count;
}

}  // namespace sextant
