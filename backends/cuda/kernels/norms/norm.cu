// Layer norm and RMS norm forward, with the residual addition in front of them.
//
// Rows whose packs of 16 bytes fit into the registers of a warp or a block are read once
// (norm_in_registers: a warp per row up to 256 packs, then a block), one wave of blocks for all
// rows, the next row under way while one is computed. Other rows, and those that are added to y,
// are held one element a register up to 4096 elements (norm_by_elements); longer ones are read once
// per pass by a block of 256 (norm_in_passes), and the later passes hit the caches.
#include "backends/cuda/kernels/norms/norm.h"
#include "backends/cuda/kernels/norms/norm_rows.cuh"

namespace sextant {
namespace {

constexpr int kPassThreads = 256;

// 0 where the sum is 0: a constant row becomes beta, not NaN.
template <typename W>
__device__ __forceinline__ W reciprocal_root(W variance, double epsilon) {
  const W sum = variance + static_cast<W>(epsilon);
  return sum == W(0) ? W(0) : W(1) / sqrt(sum);
}

template <typename T>
__device__ __forceinline__ void store_statistics(const NormArguments& a, std::int64_t row,
                                                 Wide<T> mean, Wide<T> rstd) {
  if (a.is_centred) put(static_cast<Wide<T>*>(a.mean) + row, a.adds_mean, mean);
  put(static_cast<Wide<T>*>(a.rstd) + row, a.adds_rstd, rstd);
}

template <typename T>
__device__ __forceinline__ uint4 sum_of_packs(uint4 a, uint4 b) {
  float sums[Pack<T>::kSize], others[Pack<T>::kSize];
  unpack<T>(a, sums);
  unpack<T>(b, others);
#pragma unroll
  for (int i = 0; i < Pack<T>::kSize; ++i) sums[i] += others[i];
  return to_pack<T>(sums);
}

// Sum of use(value) over the elements of the thread, pack by pack.
template <typename T, typename Shape, typename Use>
__device__ __forceinline__ float sum_of_elements(const RowThread<T, Shape>& own,
                                                 const uint4 (&x)[Shape::kPacks], const Use& use) {
  float sum = 0;
  own.for_each([&](int u) {
    float values[Pack<T>::kSize], of_pack = 0;
    unpack<T>(x[u], values);
#pragma unroll
    for (const float value : values) of_pack += use(value);
    sum += of_pack;
  });
  return sum;
}

struct Moments {
  float mean = 0, squares = 0;  // sum of the squares of distances from the mean
};

// Over the group. A warp's squares are about its own mean, so that warps exchange both at once and
// nothing cancels: the distance of its mean from that of all is added afterwards.
template <typename T, typename Shape>
__device__ __forceinline__ Moments moments(const RowThread<T, Shape>& own,
                                           uint4 (&x)[Shape::kPacks], float length, float of_warp,
                                           int turn) {
  const float sum = over_warp(sum_of_elements(own, x, [](float value) { return value; }), Plus());
  const float mean = sum / of_warp;
  if constexpr (Shape::kPacks > 4) hold_packed(x);
  const float squares = over_warp(
      sum_of_elements(own, x, [&](float value) { return (value - mean) * (value - mean); }),
      Plus());
  if constexpr (Shape::kThreads == kWarp) {
    return {mean, squares};
  } else {
    constexpr int kWarps = Shape::kThreads / kWarp;
    const float4 part =
        of_warps<Shape::kThreads, Shape::kBlock>(float4{sum, mean, squares, of_warp}, turn);
    const float mean_of_all = over_lanes<kWarps>(part.x, Plus()) / length;
    const float distance = part.y - mean_of_all;
    return {mean_of_all, over_lanes<kWarps>(part.z + part.w * (distance * distance), Plus())};
  }
}

template <typename T, typename Shape>
__device__ __forceinline__ Moments moments_about_zero(const RowThread<T, Shape>& own,
                                                      const uint4 (&x)[Shape::kPacks], int turn) {
  float squares[] = {sum_of_elements(own, x, [](float value) { return value * value; })};
  sum_over_group<Shape::kThreads, Shape::kBlock>(squares, turn);
  return {0, squares[0]};
}

template <typename T, typename Shape, bool kIsCentred, bool kAdds>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    norm_in_registers(NormArguments a) {
  using Own = RowThread<T, Shape>;
  constexpr int kSize = Own::kSize, kPacks = Own::kPacks;
  const Own own(a.length);
  const auto length = static_cast<float>(a.length);
  const auto of_warp = static_cast<float>(own.elements_of_warp());
  SharedRow<T, Shape> gamma(own, a.gamma), beta(own, kIsCentred ? a.beta : a.gamma);
  struct Row {
    uint4 x[kPacks], other[kAdds ? kPacks : 1];
  };
  const auto load = [&](Row& to, std::int64_t row) {
    own.load(to.x, a.x, row);
    if constexpr (kAdds) own.load(to.other, a.other, row);
  };
  for_each_row<Shape, Row>(a.rows, load, [&](std::int64_t row, Row& now, int turn) {
    if constexpr (kAdds)
      own.for_each([&](int u) {
        now.x[u] = sum_of_packs<T>(now.x[u], now.other[u]);
        if (a.sum != nullptr) own.first(a.sum, row)[u * Own::kStep] = now.x[u];
      });
    const Moments of_row = kIsCentred ? moments(own, now.x, length, of_warp, turn)
                                      : moments_about_zero(own, now.x, turn);
    const float rstd = reciprocal_root(of_row.squares / length, a.epsilon);
    if (own.thread == 0) store_statistics<T>(a, row, of_row.mean, rstd);
    if constexpr (kPacks > 4) hold_packed(now.x);
    gamma.hold();
    if constexpr (kIsCentred) beta.hold();
    uint4* y = own.first(a.y, row);
    own.for_each([&](int u) {
      float values[kSize], factors[kSize], terms[kSize] = {};
      unpack<T>(now.x[u], values);
      unpack<T>(gamma.pack(u), factors);
      if constexpr (kIsCentred) unpack<T>(beta.pack(u), terms);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        values[i] = (values[i] - of_row.mean) * rstd * factors[i];
        if constexpr (kIsCentred) values[i] += terms[i];
      }
      y[u * Own::kStep] = to_pack<T>(values);
    });
  });
}

// Element `i` of x, or of the sum, rounded as it is stored.
template <typename T>
__device__ __forceinline__ Wide<T> element_of_sum(const NormArguments& a, std::int64_t i) {
  const Wide<T> x = widen(static_cast<const T*>(a.x)[i]);
  if (a.other == nullptr) return x;
  return widen(narrow<T>(x + widen(static_cast<const T*>(a.other)[i])));
}

// Rows of any alignment. A thread has the same elements of all operands and reads them before it
// writes, so results may lie over operands.
template <typename T, int kThreads, int kPer>
__global__ void __launch_bounds__(kThreads, ElementRows<T, kThreads, kPer>::kBlocks)
    norm_by_elements(NormArguments a) {
  using W = Wide<T>;
  using Own = ElementRows<T, kThreads, kPer>;
  const Own own(a.length);
  const auto count =
      static_cast<W>(max(a.length, std::int64_t{1}));  // averages of an empty row are 0
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    T x[kPer];
    own.load(x, a.x, row);
    if (a.other != nullptr) {
      T other[kPer];
      own.load(other, a.other, row);
      T* sum = a.sum == nullptr ? nullptr : own.first(a.sum, row);
      own.for_each([&](int u) {
        x[u] = narrow<T>(widen(x[u]) + widen(other[u]));
        if (sum != nullptr) sum[u * kThreads] = x[u];
      });
    }
    W sum = 0, squares = 0;
    if (a.is_centred) own.for_each([&](int u) { sum += widen(x[u]); });
    const W mean = a.is_centred ? over_group<kThreads>(sum, Plus()) / count : W(0);
    own.for_each([&](int u) {
      const W centred = widen(x[u]) - mean;
      squares += centred * centred;
    });
    const W rstd = reciprocal_root(over_group<kThreads>(squares, Plus()) / count, a.epsilon);
    if (own.thread == 0) store_statistics<T>(a, row, mean, rstd);
    const T* gamma = own.first(a.gamma, 0);
    const T* beta = a.is_centred ? own.first(a.beta, 0) : nullptr;
    T* y = own.first(a.y, row);
    own.for_each([&](int u) {
      W value = (widen(x[u]) - mean) * rstd * widen(gamma[u * kThreads]);
      if (a.is_centred) value += widen(beta[u * kThreads]);
      put(y + u * kThreads, a.adds_y, value);
    });
  }
}

// A thread has the same elements in every pass, so what it stores may lie over what it read.
template <typename T>
__global__ void __launch_bounds__(kPassThreads) norm_in_passes(NormArguments a) {
  using W = Wide<T>;
  const auto* gamma = static_cast<const T*>(a.gamma);
  const auto* beta = static_cast<const T*>(a.beta);
  const bool keeps_sum = a.other != nullptr && a.sum != nullptr;
  const auto count =
      static_cast<W>(max(a.length, std::int64_t{1}));  // averages of an empty row are 0
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

template <typename T, typename Shape, bool kAdds>
void start(const NormArguments& a, cudaStream_t stream) {
  const unsigned blocks = Shape::blocks(a.rows, a.in_company);
  if (a.is_centred)
    norm_in_registers<T, Shape, true, kAdds><<<blocks, Shape::kBlock, 0, stream>>>(a);
  else
    norm_in_registers<T, Shape, false, kAdds><<<blocks, Shape::kBlock, 0, stream>>>(a);
}

template <typename T>
bool start_in_registers(const NormArguments& a, cudaStream_t stream) {
  if (a.length == 0 || a.adds_y ||
      !has_packs<T>(a.length, {a.x, a.other, a.gamma, a.beta, a.sum, a.y}))
    return false;
  const std::int64_t packs = a.length / Pack<T>::kSize;
  if (a.other == nullptr)
    return with_shape_of_one(packs, [&]<typename Shape>() { start<T, Shape, false>(a, stream); });
  return with_row_shape(packs, [&]<typename Shape>() { start<T, Shape, true>(a, stream); });
}

template <typename T>
bool start_by_elements(const NormArguments& a, cudaStream_t stream) {
  return with_element_rows<T>(a.length, [&]<typename Rows>() {
    norm_by_elements<T, Rows::kThreads, Rows::kPer>
        <<<row_blocks(a.rows, 1), Rows::kThreads, 0, stream>>>(a);
  });
}

}  // namespace

cudaError_t enqueue_norm(const NormArguments& arguments, cudaStream_t stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if constexpr (sizeof(T) <= sizeof(float))
      if (start_in_registers<T>(arguments, stream)) return cudaGetLastError();
    if (start_by_elements<T>(arguments, stream)) return cudaGetLastError();
    norm_in_passes<T><<<row_blocks(arguments.rows, 1), kPassThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace sextant
