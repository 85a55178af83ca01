// Results of attention over two sets of keys, joined by their log-sum-exps, and log-sum-exps laid
// out by head: one thread per element.
#include "backends/cuda/kernels/attention/attention.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }
__device__ float logarithm(float x) { return logf(x); }
__device__ double logarithm(double x) { return log(x); }
__device__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ double larger(double a, double b) { return fmax(a, b); }

template <typename T>
__device__ void put(void* out, std::int64_t at, Wide<T> value, bool accumulate) {
  T* to = static_cast<T*>(out) + at;
  *to = narrow<T>(accumulate ? widen(*to) + value : value);
}

// Shares of both in a row; none where neither has seen anything.
template <typename W>
struct Shares {
  W a = 0, b = 0, lse;

  __device__ Shares(W lse_a, W lse_b) : lse(larger(lse_a, lse_b)) {
    if (lse == -static_cast<W>(INFINITY)) return;
    const W share_a = exponential(lse_a - lse), share_b = exponential(lse_b - lse);
    const W sum = share_a + share_b;
    a = share_a / sum;
    b = share_b / sum;
    lse += logarithm(sum);
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) merge(AttentionMergeArguments x) {
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t elements = x.rows * x.size;
  const std::int64_t thread = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  for (std::int64_t i = thread; i < elements; i += stride) {
    const std::int64_t row = i / x.size;
    const Shares<Wide<T>> shares(widen(static_cast<const T*>(x.lse_a)[row]),
                                 widen(static_cast<const T*>(x.lse_b)[row]));
    // A share of nothing is nothing, whatever lies there.
    const Wide<T> a = shares.a == 0 ? 0 : shares.a * widen(static_cast<const T*>(x.a)[i]);
    const Wide<T> b = shares.b == 0 ? 0 : shares.b * widen(static_cast<const T*>(x.b)[i]);
    put<T>(x.o, i, a + b, x.accumulate_o);
  }
  for (std::int64_t row = thread; row < x.rows; row += stride) {
    const Shares<Wide<T>> shares(widen(static_cast<const T*>(x.lse_a)[row]),
                                 widen(static_cast<const T*>(x.lse_b)[row]));
    put<T>(x.lse, row, shares.lse, x.accumulate_lse);
  }
}

__global__ void __launch_bounds__(kThreads) lse_by_head(LseByHeadArguments x) {
  const AttentionShape& shape = x.shape;
  const std::int64_t count = shape.batch * shape.queries * shape.heads;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count; i += stride) {
    const std::int64_t s = i % shape.queries, h = i / shape.queries % shape.heads;
    x.by_head[i] = x.lse[shape.row(i / shape.queries / shape.heads, s, h)];
  }
}

}  // namespace

cudaError_t enqueue_lse_by_head(const LseByHeadArguments& x, cudaStream_t stream) {
  const std::int64_t count = x.shape.batch * x.shape.queries * x.shape.heads;
  if (count == 0) return cudaSuccess;
  lse_by_head<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(x);
  return cudaGetLastError();
}

cudaError_t enqueue_attention_merge(const AttentionMergeArguments& x, cudaStream_t stream) {
  if (x.rows == 0) return cudaSuccess;
  const unsigned blocks = blocks_for(x.size == 0 ? x.rows : x.rows * x.size, kThreads);
  return with_floating_type(x.dtype, [&]<typename T>() {
    merge<T><<<blocks, kThreads, 0, stream>>>(x);
    return cudaGetLastError();
  });
}

}  // namespace sextant
