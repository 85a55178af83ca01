// Lines that lie side by side (inner dims of 32 elements or more) have a thread each; others have a
// block each for running sums, 1024 elements at a time, and a warp each for searches.
#include "backends/cuda/kernels/reductions/lines.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kItems = 4;  // elements of a line that a thread sums before the block does
constexpr unsigned kAll = 0xFFFFFFFFu;
constexpr std::int64_t kSideBySide = 32;

// The steps of a scan: from the first global index that either operand has to the last.
struct Steps {
  std::int64_t first, count;
  __device__ explicit Steps(const CudaCumsum& x) {
    const std::int64_t from_end = x.from_offset + x.from_extent, to_end = x.to_offset + x.to_extent;
    first = x.from_offset < x.to_offset ? x.from_offset : x.to_offset;
    count = (from_end > to_end ? from_end : to_end) - first;
  }
  __device__ std::int64_t index(const CudaCumsum& x, std::int64_t step) const {
    return x.reverse ? first + count - 1 - step : first + step;
  }
};

// One line: where its elements lie.
template <typename T>
struct Line {
  const CudaCumsum& x;
  std::int64_t outer, inner;

  __device__ Wide<T> load(std::int64_t index) const {
    const std::int64_t at = index - x.from_offset;
    if (at < 0 || at >= x.from_extent) return 0;
    return widen(static_cast<const T*>(x.from)[(outer * x.from_extent + at) * x.inner + inner]);
  }
  __device__ void store(std::int64_t index, Wide<T> sum) const {
    const std::int64_t at = index - x.to_offset;
    if (at < 0 || at >= x.to_extent) return;
    T& to = static_cast<T*>(x.to)[(outer * x.to_extent + at) * x.inner + inner];
    to = narrow<T>(x.accumulate ? widen(to) + sum : sum);
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) cumsum_by_thread(CudaCumsum x) {
  const Steps steps(x);
  const std::int64_t lines = x.outer * x.inner, stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t at = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; at < lines;
       at += stride) {
    const Line<T> line = {x, at / x.inner, at % x.inner};
    Wide<T> sum = 0;
    for (std::int64_t step = 0; step < steps.count; ++step) {
      const std::int64_t index = steps.index(x, step);
      const Wide<T> before = sum;
      sum += line.load(index);
      line.store(index, x.exclusive ? before : sum);
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) cumsum_by_block(CudaCumsum x) {
  using W = Wide<T>;
  __shared__ W of_warp[kWarps];
  const Steps steps(x);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  for (std::int64_t at = blockIdx.x; at < x.outer * x.inner; at += gridDim.x) {
    const Line<T> line = {x, at / x.inner, at % x.inner};
    W carry = 0;
    for (std::int64_t first = 0; first < steps.count; first += kThreads * kItems) {
      const std::int64_t step = first + thread * kItems;
      W items[kItems];
#pragma unroll
      for (int k = 0; k < kItems; ++k)
        items[k] = step + k < steps.count ? line.load(steps.index(x, step + k)) : W(0);
      W total = 0;
#pragma unroll
      for (int k = 0; k < kItems; ++k) total += items[k];
      W sum = total;
#pragma unroll
      for (int distance = 1; distance < 32; distance *= 2) {
        const W other = __shfl_up_sync(kAll, sum, distance);
        if (lane >= distance) sum += other;
      }
      W before = __shfl_up_sync(kAll, sum, 1);
      if (lane == 0) before = 0;
      __syncthreads();  // the last ones are no longer read
      if (lane == 31) of_warp[warp] = sum;
      __syncthreads();
      W base = carry;
#pragma unroll
      for (int w = 0; w < kWarps; ++w) {
        if (w < warp) base += of_warp[w];
        carry += of_warp[w];
      }
      base += before;
#pragma unroll
      for (int k = 0; k < kItems; ++k) {
        const W next = base + items[k];
        if (step + k < steps.count) line.store(steps.index(x, step + k), x.exclusive ? base : next);
        base = next;
      }
    }
  }
}

struct StartCumsum {
  const CudaCumsum& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const std::int64_t lines = x.outer * x.inner;
    if (x.inner >= kSideBySide)
      cumsum_by_thread<T><<<blocks_for(lines, kThreads), kThreads, 0, stream>>>(x);
    else
      cumsum_by_block<T><<<limited(lines), kThreads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

constexpr long long kNowhere = 0x7FFFFFFFFFFFFFFF;

// Equal, or both NaN.
template <typename W>
__device__ __forceinline__ bool is_same(W a, W b) {
  return a == b || (a != a && b != b);
}

__device__ void put_index(const CudaFirstIndex& x, std::int64_t line, long long found) {
  const long long index = found == kNowhere ? found : x.offset + found;
  x.index[line] = x.accumulate
                      ? static_cast<std::int64_t>(static_cast<std::uint64_t>(x.index[line]) +
                                                  static_cast<std::uint64_t>(index))
                      : index;
}

template <typename T>
__global__ void __launch_bounds__(kThreads) first_index_by_thread(CudaFirstIndex x) {
  const std::int64_t lines = x.outer * x.inner, stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t line = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; line < lines;
       line += stride) {
    const std::int64_t outer = line / x.inner, inner = line - outer * x.inner;
    const Wide<T> value = widen(static_cast<const T*>(x.value)[line]);
    long long found = kNowhere;
    for (std::int64_t i = 0; i < x.length && found == kNowhere; ++i)
      if (is_same(widen(static_cast<const T*>(x.x)[(outer * x.length + i) * x.inner + inner]),
                  value))
        found = i;
    put_index(x, line, found);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) first_index_by_warp(CudaFirstIndex x) {
  const std::int64_t lines = x.outer * x.inner, stride = std::int64_t{gridDim.x} * kWarps;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t line = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / 32; line < lines;
       line += stride) {
    const std::int64_t outer = line / x.inner, inner = line - outer * x.inner;
    const Wide<T> value = widen(static_cast<const T*>(x.value)[line]);
    long long found = kNowhere;
    for (std::int64_t first = 0; first < x.length && found == kNowhere; first += 32) {
      const std::int64_t i = first + lane;
      const bool here =
          i < x.length &&
          is_same(widen(static_cast<const T*>(x.x)[(outer * x.length + i) * x.inner + inner]),
                  value);
      const unsigned votes = __ballot_sync(kAll, here);
      if (votes != 0) found = first + __ffs(static_cast<int>(votes)) - 1;
    }
    if (lane == 0) put_index(x, line, found);
  }
}

struct StartFirstIndex {
  const CudaFirstIndex& x;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const std::int64_t lines = x.outer * x.inner;
    if (x.inner >= kSideBySide)
      first_index_by_thread<T><<<blocks_for(lines, kThreads), kThreads, 0, stream>>>(x);
    else
      first_index_by_warp<T><<<blocks_for(lines, kWarps), kThreads, 0, stream>>>(x);
    return cudaGetLastError();
  }
};

}  // namespace

cudaError_t enqueue_cumsum(const CudaCumsum& cumsum, cudaStream_t stream) {
  if (cumsum.outer * cumsum.inner * cumsum.to_extent == 0) return cudaSuccess;
  return with_type(cumsum.type, StartCumsum{cumsum, stream});
}

cudaError_t enqueue_first_index(const CudaFirstIndex& first_index, cudaStream_t stream) {
  if (first_index.outer * first_index.inner == 0) return cudaSuccess;
  return with_type(first_index.type, StartFirstIndex{first_index, stream});
}

}  // namespace sextant
