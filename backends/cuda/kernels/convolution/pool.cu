// Pools of any number of dims: a thread per element of y or dx (pool_planes.cu has a faster one).
// The gradient of a maximum looks again, for every window that reads a position, for the first of
// its largest elements: no table of where they were, no atomics.
#include "backends/cuda/kernels/convolution/windows.cuh"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/numbers.cuh"

#include <math_constants.h>

namespace sextant {
namespace {

constexpr int kThreads = 256;

// Plane and position of every element of a tensor with so many positions per plane.
template <typename Use>
__device__ __forceinline__ void for_each_element(std::int64_t planes, std::int64_t positions,
                                                 const Use& use) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < planes * positions;
       i += stride) {
    const std::int64_t plane = i / positions;
    use(i, plane, i - plane * positions);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) max_pool(const __grid_constant__ CudaPool p) {
  using W = Wide<T>;
  const CudaWindows& windows = p.windows;
  for_each_element(p.planes, windows.y_positions,
                   [&](std::int64_t i, std::int64_t plane, std::int64_t y) {
                     const T* x = static_cast<const T*>(p.x) + plane * windows.x_positions;
                     W largest = -static_cast<W>(CUDART_INF);
                     for (std::int64_t tap = 0; tap < windows.taps; ++tap) {
                       const std::int64_t at = position_read(windows, y, tap);
                       if (at < 0) continue;
                       const W value = widen(x[at]);
                       if (value > largest || isnan(value)) largest = value;
                     }
                     put_number(p.to_type, p.to, i, largest, p.accumulate);
                   });
}

// The first of the largest elements of a window, NaN the largest of all; -1 where it has none.
template <typename T>
__device__ __forceinline__ std::int64_t first_largest(const CudaWindows& windows, const T* x,
                                                      std::int64_t y) {
  std::int64_t first = -1;
  Wide<T> largest = 0;
  for (std::int64_t tap = 0; tap < windows.taps; ++tap) {
    const std::int64_t at = position_read(windows, y, tap);
    if (at < 0) continue;
    const Wide<T> value = widen(x[at]);
    if (first < 0 || value > largest || (isnan(value) && !isnan(largest))) {
      first = at;
      largest = value;
    }
  }
  return first;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) max_pool_grad(const __grid_constant__ CudaPool p) {
  const CudaWindows& windows = p.windows;
  for_each_element(p.planes, windows.x_positions,
                   [&](std::int64_t i, std::int64_t plane, std::int64_t at) {
                     const T* x = static_cast<const T*>(p.x) + plane * windows.x_positions;
                     const T* dy = static_cast<const T*>(p.dy) + plane * windows.y_positions;
                     Wide<T> sum = 0;
                     for (std::int64_t tap = 0; tap < windows.taps; ++tap) {
                       const std::int64_t y = window_reading(windows, at, tap);
                       if (y >= 0 && first_largest(windows, x, y) == at) sum += widen(dy[y]);
                     }
                     put_number(p.to_type, p.to, i, sum, p.accumulate);
                   });
}

// By how much a window divides its sum: all its positions, or those inside the global tensor.
template <typename W>
__device__ __forceinline__ W divisor(const CudaPool& p, std::int64_t y) {
  return static_cast<W>(p.count_padding ? p.windows.taps : count_inside(p.windows, y));
}

template <typename T>
__global__ void __launch_bounds__(kThreads) avg_pool(const __grid_constant__ CudaPool p) {
  const CudaWindows& windows = p.windows;
  for_each_element(p.planes, windows.y_positions,
                   [&](std::int64_t i, std::int64_t plane, std::int64_t y) {
                     const T* x = static_cast<const T*>(p.x) + plane * windows.x_positions;
                     const Wide<T> count = divisor<Wide<T>>(p, y);
                     Wide<T> sum = 0;
                     for (std::int64_t tap = 0; tap < windows.taps; ++tap) {
                       const std::int64_t at = position_read(windows, y, tap);
                       if (at >= 0) sum += widen(x[at]) / count;
                     }
                     put_number(p.to_type, p.to, i, sum, p.accumulate);
                   });
}

template <typename T>
__global__ void __launch_bounds__(kThreads) avg_pool_grad(const __grid_constant__ CudaPool p) {
  const CudaWindows& windows = p.windows;
  for_each_element(p.planes, windows.x_positions,
                   [&](std::int64_t i, std::int64_t plane, std::int64_t at) {
                     const T* dy = static_cast<const T*>(p.dy) + plane * windows.y_positions;
                     Wide<T> sum = 0;
                     for (std::int64_t tap = 0; tap < windows.taps; ++tap) {
                       const std::int64_t y = window_reading(windows, at, tap);
                       if (y >= 0) sum += widen(dy[y]) / divisor<Wide<T>>(p, y);
                     }
                     put_number(p.to_type, p.to, i, sum, p.accumulate);
                   });
}

enum class Which { kMax, kAvg, kMaxGrad, kAvgGrad };

template <Which which>
struct Start {
  const CudaPool& p;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    constexpr bool kIsGrad = which == Which::kMaxGrad || which == Which::kAvgGrad;
    const std::int64_t count = p.planes * (kIsGrad ? p.windows.x_positions : p.windows.y_positions);
    if (count == 0) return cudaSuccess;
    const unsigned blocks = blocks_for(count, kThreads);
    if constexpr (which == Which::kMax) max_pool<T><<<blocks, kThreads, 0, stream>>>(p);
    if constexpr (which == Which::kAvg) avg_pool<T><<<blocks, kThreads, 0, stream>>>(p);
    if constexpr (which == Which::kMaxGrad) max_pool_grad<T><<<blocks, kThreads, 0, stream>>>(p);
    if constexpr (which == Which::kAvgGrad) avg_pool_grad<T><<<blocks, kThreads, 0, stream>>>(p);
    return cudaGetLastError();
  }
};

}  // namespace

cudaError_t enqueue_max_pool(const CudaPool& pool, cudaStream_t stream) {
  return with_floating_type(pool.type, Start<Which::kMax>{pool, stream});
}

cudaError_t enqueue_avg_pool(const CudaPool& pool, cudaStream_t stream) {
  return with_floating_type(pool.type, Start<Which::kAvg>{pool, stream});
}

cudaError_t enqueue_max_pool_grad(const CudaPool& pool, cudaStream_t stream) {
  return with_floating_type(pool.type, Start<Which::kMaxGrad>{pool, stream});
}

cudaError_t enqueue_avg_pool_grad(const CudaPool& pool, cudaStream_t stream) {
  return with_floating_type(pool.type, Start<Which::kAvgGrad>{pool, stream});
}

}  // namespace sextant
