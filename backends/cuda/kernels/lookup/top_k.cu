// Choice of experts. top_k: a block per row, 32 to 256 threads, one pass over the row per element
// chosen: k is small and the row stays in the cache. Its gradient: a thread per element of dx.
#include "backends/cuda/kernels/lookup/moe.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/numbers.cuh"

namespace sextant {
namespace {

constexpr int kMostThreads = 256;

// An element of a row; index -1 is none.
template <typename W>
struct Candidate {
  W value;
  long long index;
};

// Largest first, of equals the first; a NaN counts as largest.
template <typename W>
__device__ __forceinline__ bool is_before(const Candidate<W>& a, const Candidate<W>& b) {
  const bool a_nan = isnan(a.value), b_nan = isnan(b.value);
  if (a_nan != b_nan) return a_nan;
  if (!a_nan && a.value != b.value) return a.value > b.value;
  return a.index < b.index;
}

template <typename W>
__device__ __forceinline__ Candidate<W> better(const Candidate<W>& a, const Candidate<W>& b) {
  if (a.index < 0) return b;
  if (b.index < 0) return a;
  return is_before(a, b) ? a : b;
}

template <typename W>
__device__ Candidate<W> best_of_warp(Candidate<W> own) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const Candidate<W> other = {__shfl_xor_sync(0xFFFFFFFFu, own.value, step),
                                __shfl_xor_sync(0xFFFFFFFFu, own.index, step)};
    own = better(own, other);
  }
  return own;
}

// The best of the block, known to all of its threads.
template <typename W>
__device__ Candidate<W> best_of_block(Candidate<W> own, Candidate<W>* of_warp) {
  own = best_of_warp(own);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (warps == 1) return own;
  __syncthreads();  // the last ones are no longer read
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = own;
  __syncthreads();
  Candidate<W> best = of_warp[0];
  for (int warp = 1; warp < warps; ++warp) best = better(best, of_warp[warp]);
  return best;
}

template <typename T>
__global__ void __launch_bounds__(kMostThreads) top_k(CudaTopK x) {
  using W = Wide<T>;
  __shared__ Candidate<W> of_warp[kMostThreads / 32];
  for (std::int64_t row = blockIdx.x; row < x.rows; row += gridDim.x) {
    const T* elements = static_cast<const T*>(x.x) + row * x.classes;
    Candidate<W> last = {W(0), -1};
    for (std::int64_t j = 0; j < x.k; ++j) {
      Candidate<W> best = {W(0), -1};
      for (std::int64_t i = threadIdx.x; i < x.classes; i += blockDim.x) {
        const Candidate<W> own = {widen(elements[i]), i};
        if (last.index < 0 || is_before(last, own)) best = better(best, own);
      }
      last = best_of_block(best, of_warp);
      if (threadIdx.x > 0) continue;
      const std::int64_t at = row * x.k + j;
      T& value = static_cast<T*>(x.values)[at];
      value = x.adds_values ? narrow<T>(widen(value) + last.value) : elements[last.index];
      const auto index = static_cast<std::int32_t>(last.index);
      x.indices[at] = x.adds_indices ? x.indices[at] + index : index;
    }
  }
}

struct StartTopK {
  const CudaTopK& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    int threads = 32;
    while (threads < kMostThreads && threads * 8 < x.classes) threads *= 2;
    top_k<T><<<limited(x.rows), threads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

template <typename T>
__global__ void __launch_bounds__(kMostThreads) top_k_grad(CudaTopKGrad x) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kMostThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kMostThreads + threadIdx.x;
       i < x.rows * x.classes; i += stride) {
    const std::int64_t row = i / x.classes, of_class = i - row * x.classes;
    Wide<T> sum = 0;
    for (std::int64_t at = row * x.k; at < (row + 1) * x.k; ++at) {
      const std::int64_t index = x.is_wide ? static_cast<const std::int64_t*>(x.indices)[at]
                                           : static_cast<const std::int32_t*>(x.indices)[at];
      if (index == of_class) sum += widen(static_cast<const T*>(x.dvalues)[at]);
    }
    put_number(x.to_type, x.dx, i, sum, x.accumulate);
  }
}

struct StartTopKGrad {
  const CudaTopKGrad& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const std::int64_t blocks = (x.rows * x.classes + kMostThreads - 1) / kMostThreads;
    top_k_grad<T><<<limited(blocks), kMostThreads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

}  // namespace

cudaError_t enqueue_top_k(const CudaTopK& top_k, cudaStream_t stream) {
  if (top_k.rows * top_k.k == 0) return cudaSuccess;
  return with_floating_type(top_k.type, StartTopK{top_k, stream});
}

cudaError_t enqueue_top_k_grad(const CudaTopKGrad& grad, cudaStream_t stream) {
  if (grad.rows * grad.classes == 0) return cudaSuccess;
  return with_floating_type(grad.type, StartTopKGrad{grad, stream});
}

}  // namespace sextant
