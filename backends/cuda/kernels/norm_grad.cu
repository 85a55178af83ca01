// Gradients of layer norm and RMS norm: for the input by rows, with the addition behind it; for the
// weights by columns.
//
// The input's rows are held in registers or read in passes, as norm.cu does it. The weights' sums
// run in two stages (reduce.cuh), each thread over the eight columns of a pack of 16-bit values.
#include "backends/cuda/kernels/norm.h"
#include "backends/cuda/kernels/norm_rows.cuh"

namespace sextant {
namespace {

constexpr int kPassThreads = 256;

template <typename T, typename Shape>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    grad_input_in_registers(NormGradInputArguments a) {
  using W = Wide<T>;
  using Packed = Pack<T>;
  constexpr int kSize = Packed::kSize, kPacks = Shape::kPacks, kThreads = Shape::kThreads;
  const int thread = static_cast<int>(threadIdx.x) % kThreads;
  const std::int64_t packs = a.length / kSize;
  const auto* gamma = static_cast<const Packed*>(a.gamma);
  const auto* other = static_cast<const Packed*>(a.other);
  const W count = static_cast<W>(a.length);
  for (std::int64_t row = std::int64_t{blockIdx.x} * Shape::kRows + threadIdx.x / kThreads;
       row < a.rows; row += std::int64_t{gridDim.x} * Shape::kRows) {
    const std::int64_t at = row * packs + thread;
    Packed x[kPacks], dy[kPacks];
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      if (thread + u * kThreads >= packs) continue;
      x[u] = static_cast<const Packed*>(a.x)[at + u * kThreads];
      dy[u] = static_cast<const Packed*>(a.dy)[at + u * kThreads];
    }
    const W mean = a.is_centred ? static_cast<const W*>(a.mean)[row] : W(0);
    const W rstd = static_cast<const W*>(a.rstd)[row];
    W sum_g = 0, sum_gh = 0;
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      if (thread + u * kThreads >= packs) continue;
      const Packed weights = gamma[thread + u * kThreads];
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const W g = widen(dy[u].values[i]) * widen(weights.values[i]);
        sum_g += g;
        sum_gh += g * ((widen(x[u].values[i]) - mean) * rstd);
      }
    }
    const W average_g = a.is_centred ? over_group<kThreads>(sum_g, Plus()) / count : W(0);
    const W average_gh = over_group<kThreads>(sum_gh, Plus()) / count;
    hold_packed(x);
    hold_packed(dy);
#pragma unroll
    for (int u = 0; u < kPacks; ++u) {
      const int pack = thread + u * kThreads;
      if (pack >= packs) continue;
      const Packed weights = gamma[pack];
      Packed added, dx;
      if (other != nullptr) added = other[at + u * kThreads];
      Packed* out = static_cast<Packed*>(a.dx) + at + u * kThreads;
      if (a.adds_dx) dx = *out;
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        const W g = widen(dy[u].values[i]) * widen(weights.values[i]);
        const W h = (widen(x[u].values[i]) - mean) * rstd;
        W value = rstd * (g - average_g - h * average_gh);
        if (other != nullptr) value += widen(added.values[i]);
        if (a.adds_dx) value += widen(dx.values[i]);
        dx.values[i] = narrow<T>(value);
      }
      *out = dx;
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kPassThreads) grad_input_in_passes(NormGradInputArguments a) {
  using W = Wide<T>;
  const auto* gamma = static_cast<const T*>(a.gamma);
  const auto* other = static_cast<const T*>(a.other);
  const W count = static_cast<W>(a.length);
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const std::int64_t first = row * a.length;
    const auto* x = static_cast<const T*>(a.x) + first;
    const auto* dy = static_cast<const T*>(a.dy) + first;
    const W mean = a.is_centred ? static_cast<const W*>(a.mean)[row] : W(0);
    const W rstd = static_cast<const W*>(a.rstd)[row];
    W sum_g = 0, sum_gh = 0;
    for (std::int64_t i = threadIdx.x; i < a.length; i += kPassThreads) {
      const W g = widen(dy[i]) * widen(gamma[i]);
      sum_g += g;
      sum_gh += g * ((widen(x[i]) - mean) * rstd);
    }
    const W average_g = a.is_centred ? over_group<kPassThreads>(sum_g, Plus()) / count : W(0);
    const W average_gh = over_group<kPassThreads>(sum_gh, Plus()) / count;
    for (std::int64_t i = threadIdx.x; i < a.length; i += kPassThreads) {
      const W g = widen(dy[i]) * widen(gamma[i]);
      const W h = (widen(x[i]) - mean) * rstd;
      W value = rstd * (g - average_g - h * average_gh);
      if (other != nullptr) value += widen(other[first + i]);
      put(static_cast<T*>(a.dx) + first + i, a.adds_dx, value);
    }
  }
}

template <typename T>
bool start_in_registers(const NormGradInputArguments& a, cudaStream_t stream) {
  if (!has_packs<T>(a.length, {a.x, a.dy, a.gamma, a.other, a.dx})) return false;
  return with_row_shape(a.length / Pack<T>::kSize, [&]<typename Shape>() {
    grad_input_in_registers<T, Shape>
        <<<row_blocks(a.rows, Shape::kRows), Shape::kBlock, 0, stream>>>(a);
  });
}

// Sums of dy h and of dy (source of reduce.cuh).
template <typename T, int kWidthOf>
struct WeightSource {
  using Sum = Wide<T>;
  static constexpr int kWidth = kWidthOf, kSums = 2;
  const T *x, *dy;
  const Sum *mean, *rstd;  // no mean: RMS norm
  std::int64_t columns;

  __device__ __forceinline__ void add(std::int64_t row, std::int64_t column,
                                      Sum (&sums)[kSums][kWidth]) const {
    const std::int64_t at = row * columns + column;
    const Sum centre = mean != nullptr ? mean[row] : Sum(0), factor = rstd[row];
    const auto add_one = [&](int i, T of_x, T of_dy) {
      const Sum d = widen(of_dy);
      sums[0][i] += d * ((widen(of_x) - centre) * factor);
      sums[1][i] += d;
    };
    if constexpr (kWidth == 1) {
      add_one(0, x[at], dy[at]);
    } else {
      static_assert(kWidth == Pack<T>::kSize);
      const Pack<T> xs = *reinterpret_cast<const Pack<T>*>(x + at);
      const Pack<T> dys = *reinterpret_cast<const Pack<T>*>(dy + at);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) add_one(i, xs.values[i], dys.values[i]);
    }
  }
};

template <typename W>
struct WeightSink {
  W *dgamma, *dbeta;  // no dbeta: RMS norm
  bool adds_dgamma, adds_dbeta;
  __device__ void store(int sum, std::int64_t column, W value) const {
    if (sum == 0)
      put(dgamma + column, adds_dgamma, value);
    else if (dbeta != nullptr)
      put(dbeta + column, adds_dbeta, value);
  }
};

template <typename T, int kWidth>
cudaError_t start_weight_sums(const NormGradWeightArguments& a, cudaStream_t stream) {
  using W = Wide<T>;
  const WeightSource<T, kWidth> source = {static_cast<const T*>(a.x), static_cast<const T*>(a.dy),
                                          a.is_centred ? static_cast<const W*>(a.mean) : nullptr,
                                          static_cast<const W*>(a.rstd), a.length};
  const WeightSink<W> sink = {static_cast<W*>(a.dgamma), static_cast<W*>(a.dbeta), a.adds_dgamma,
                              a.adds_dbeta};
  return enqueue_column_sums(source, sink, a.rows, a.length, a.scratch, stream);
}

}  // namespace

cudaError_t enqueue_norm_grad_input(const NormGradInputArguments& arguments, cudaStream_t stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if constexpr (sizeof(T) <= sizeof(float))
      if (start_in_registers<T>(arguments, stream)) return cudaGetLastError();
    grad_input_in_passes<T><<<row_blocks(arguments.rows, 1), kPassThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_norm_grad_weight(const NormGradWeightArguments& arguments,
                                     cudaStream_t stream) {
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if constexpr (sizeof(T) <= sizeof(float))
      if (has_packs<T>(arguments.length, {arguments.x, arguments.dy}))
        return start_weight_sums<T, Pack<T>::kSize>(arguments, stream);
    return start_weight_sums<T, 1>(arguments, stream);
  });
}

}  // namespace sextant
