// Layer norm and RMS norm forward, with the residual addition in front of them.
//
// Rows whose packs of 16 bytes fit into the registers of a warp or a block are read once
// (norm_in_registers: a warp per row up to 64 packs, four warps a block; then a block per row).
// Other rows are read once per pass by a block of 256 (norm_in_passes); the later passes hit the
// caches.
#include "backends/cuda/kernels/norm.h"
#include "backends/cuda/kernels/norm_rows.cuh"

namespace sextant {
namespace {

constexpr int kPassThreads = 256;

template <typename W>
__device__ __forceinline__ W reciprocal_root(W variance, double epsilon) {
  return W(1) / sqrt(variance + static_cast<W>(epsilon));
}

template <typename T>
__device__ __forceinline__ void store_statistics(const NormArguments& a, std::int64_t row,
                                                 Wide<T> mean, Wide<T> rstd) {
  if (a.is_centred) put(static_cast<Wide<T>*>(a.mean) + row, a.adds_mean, mean);
  put(static_cast<Wide<T>*>(a.rstd) + row, a.adds_rstd, rstd);
}

template <typename T>
__device__ __forceinline__ Pack<T> sum_of_packs(const Pack<T>& a, const Pack<T>& b) {
  Pack<T> sum;
#pragma unroll
  for (int i = 0; i < Pack<T>::kSize; ++i)
    sum.values[i] = narrow<T>(widen(a.values[i]) + widen(b.values[i]));
  return sum;
}

template <typename T, typename Shape>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    norm_in_registers(NormArguments a) {
  using W = Wide<T>;
  using Packed = Pack<T>;
  constexpr int kSize = Packed::kSize, kPacks = Shape::kPacks, kThreads = Shape::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const std::int64_t packs = a.length / kSize;
  const auto* gamma = static_cast<const Packed*>(a.gamma);
  const auto* beta = static_cast<const Packed*>(a.beta);
  for (std::int64_t row = std::int64_t{blockIdx.x} * Shape::kRows + threadIdx.x / kThreads;
       row < a.rows; row += std::int64_t{gridDim.x} * Shape::kRows) {
    const std::int64_t at = row * packs + thread;
    Packed x[kPacks];
#pragma unroll
    for (int u = 0; u < kPacks; ++u)
      if (thread + u * kThreads < packs) x[u] = static_cast<const Packed*>(a.x)[at + u * kThreads];
    if (a.other != nullptr) {
      Packed other[kPacks];
#pragma unroll
      for (int u = 0; u < kPacks; ++u)
        if (thread + u * kThreads < packs)
          other[u] = static_cast<const Packed*>(a.other)[at + u * kThreads];
#pragma unroll
      for (int u = 0; u < kPacks; ++u) {
        if (thread + u * kThreads >= packs) continue;
        x[u] = sum_of_packs(x[u], other[u]);
        if (a.sum != nullptr) static_cast<Packed*>(a.sum)[at + u * kThreads] = x[u];
      }
    }
    hold_packed(x);
    W mean = 0;
    if (a.is_centred) {
      W sum = 0;
#pragma unroll
      for (int u = 0; u < kPacks; ++u) {
        if (thread + u * kThreads >= packs) continue;
#pragma unroll
        for (int i = 0; i < kSize; ++i) sum += widen(x[u].values[i]);
      }
      mean = over_group<kThreads>(sum, Plus()) / static_cast<W>(a.length);
    }
    hold_packed(x);
    W squares = 0;
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      if (thread + u * kThreads >= packs) continue;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const W centred = widen(x[u].values[i]) - mean;
        squares += centred * centred;
      }
    }
    squares = over_group<kThreads>(squares, Plus());
    const W rstd = reciprocal_root(squares / static_cast<W>(a.length), a.epsilon);
    if (thread == 0) store_statistics<T>(a, row, mean, rstd);
    hold_packed(x);
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      const int pack = thread + u * kThreads;
      if (pack >= packs) continue;
      const Packed weights = gamma[pack];
      Packed shifts, y;
      if (a.is_centred) shifts = beta[pack];
      Packed* out = static_cast<Packed*>(a.y) + at + u * kThreads;
      if (a.adds_y) y = *out;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        W value = (widen(x[u].values[i]) - mean) * rstd * widen(weights.values[i]);
        if (a.is_centred) value += widen(shifts.values[i]);
        if (a.adds_y) value += widen(y.values[i]);
        y.values[i] = narrow<T>(value);
      }
      *out = y;
    }
  }
}

// Element `i` of x, or of the sum, rounded as it is stored.
template <typename T>
__device__ __forceinline__ Wide<T> element_of_sum(const NormArguments& a, std::int64_t i) {
  const Wide<T> x = widen(static_cast<const T*>(a.x)[i]);
  if (a.other == nullptr) return x;
  return widen(narrow<T>(x + widen(static_cast<const T*>(a.other)[i])));
}

// A thread has the same elements in every pass, so what it stores may lie over what it read.
template <typename T>
__global__ void __launch_bounds__(kPassThreads) norm_in_passes(NormArguments a) {
  using W = Wide<T>;
  const auto* gamma = static_cast<const T*>(a.gamma);
  const auto* beta = static_cast<const T*>(a.beta);
  const bool keeps_sum = a.other != nullptr && a.sum != nullptr;
  const auto count = static_cast<W>(a.length);
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const std::int64_t first = row * a.length;
    const auto element = [&](std::int64_t i) {
      return keeps_sum ? widen(static_cast<const T*>(a.sum)[first + i])
                       : element_of_sum<T>(a, first + i);
    };
    W sum = 0;
    if (keeps_sum || a.is_centred) {
      for (std::int64_t i = threadIdx.x; i < a.length; i += kPassThreads) {
        const W value = element_of_sum<T>(a, first + i);
        if (keeps_sum) static_cast<T*>(a.sum)[first + i] = narrow<T>(value);
        sum += value;
      }
    }
    const W mean = a.is_centred ? over_group<kPassThreads>(sum, Plus()) / count : W(0);
    W squares = 0;
    for (std::int64_t i = threadIdx.x; i < a.length; i += kPassThreads) {
      const W centred = element(i) - mean;
      squares += centred * centred;
    }
    const W rstd = reciprocal_root(over_group<kPassThreads>(squares, Plus()) / count, a.epsilon);
    if (threadIdx.x == 0) store_statistics<T>(a, row, mean, rstd);
    for (std::int64_t i = threadIdx.x; i < a.length; i += kPassThreads) {
      W value = (element(i) - mean) * rstd * widen(gamma[i]);
      if (a.is_centred) value += widen(beta[i]);
      put(static_cast<T*>(a.y) + first + i, a.adds_y, value);
    }
  }
}

template <typename T>
bool start_in_registers(const NormArguments& a, cudaStream_t stream) {
  if (!has_packs<T>(a.length, {a.x, a.other, a.gamma, a.beta, a.sum, a.y})) return false;
  return with_row_shape(a.length / Pack<T>::kSize, [&]<typename Shape>() {
    norm_in_registers<T, Shape><<<row_blocks(a.rows, Shape::kRows), Shape::kBlock, 0, stream>>>(a);
  });
}

}  // namespace

cudaError_t enqueue_norm(const NormArguments& arguments, cudaStream_t stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if constexpr (sizeof(T) <= sizeof(float))
      if (start_in_registers<T>(arguments, stream)) return cudaGetLastError();
    norm_in_passes<T><<<row_blocks(arguments.rows, 1), kPassThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace sextant
