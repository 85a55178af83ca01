// Gradients of layer norm and RMS norm: for the input by rows, with the addition behind it; for the
// weights by columns.
//
// The input's rows are held in registers, in packs or by elements, or read in passes, as norm.cu
// does it. The weights' sums
// are those of column_sums.cuh.
#include "backends/cuda/kernels/norms/norm.h"
#include "backends/cuda/kernels/norms/norm_rows.cuh"
#include "backends/cuda/kernels/shared/column_sums.cuh"

namespace sextant {
namespace {

constexpr int kPassThreads = 256;

template <typename T, typename Shape, bool kIsCentred>
__global__ void __launch_bounds__(Shape::kBlock, Shape::kBlocks)
    grad_input_in_registers(NormGradInputArguments a) {
  using Own = RowThread<T, Shape>;
  constexpr int kSize = Own::kSize, kPacks = Own::kPacks;
  const Own own(a.length);
  const float share = 1 / static_cast<float>(a.length);
  SharedRow<T, Shape> gamma(own, a.gamma);
  struct Row {
    float mean = 0, rstd = 0;
    uint4 x[kPacks], dy[kPacks], other[Shape::kHoldsAll ? kPacks : 1];
  };
  const auto load = [&](Row& to, std::int64_t row) {
    if constexpr (kIsCentred) to.mean = static_cast<const float*>(a.mean)[row];
    to.rstd = static_cast<const float*>(a.rstd)[row];
    own.load(to.x, a.x, row);
    own.load(to.dy, a.dy, row);
    if constexpr (Shape::kHoldsAll)
      if (a.other != nullptr) own.load(to.other, a.other, row);
  };
  for_each_row<Shape, Row>(a.rows, load, [&](std::int64_t row, Row& now, int turn) {
    // g and h of pack u
    const auto compute = [&](int u, float(&g)[kSize], float(&h)[kSize]) {
      float factors[kSize];
      unpack<T>(now.dy[u], g);
      unpack<T>(now.x[u], h);
      unpack<T>(gamma.pack(u), factors);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        g[i] *= factors[i];
        h[i] = (h[i] - now.mean) * now.rstd;
      }
    };
    float averages[kIsCentred ? 2 : 1] = {};  // of g h, of g
    own.for_each([&](int u) {
      float g[kSize], h[kSize], of_gh = 0, of_g = 0;
      compute(u, g, h);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        of_gh += g[i] * h[i];
        of_g += g[i];
      }
      averages[0] += of_gh;
      if constexpr (kIsCentred) averages[1] += of_g;
    });
    sum_over_group<Shape::kThreads, Shape::kBlock>(averages, turn);
#pragma unroll
    for (float& average : averages) average *= share;
    hold_packed(now.x);
    hold_packed(now.dy);
    gamma.hold();
    const uint4* other = own.first(a.other, row);
    uint4* dx = own.first(a.dx, row);
    own.for_each([&](int u) {
      float g[kSize], h[kSize], values[kSize], terms[kSize];
      compute(u, g, h);
#pragma unroll
      for (int i = 0; i < kSize; ++i) {
        if constexpr (kIsCentred) g[i] -= averages[1];
        values[i] = now.rstd * (g[i] - h[i] * averages[0]);
      }
      if (a.other != nullptr) {
        unpack<T>(Shape::kHoldsAll ? now.other[u] : other[u * Own::kStep], terms);
#pragma unroll
        for (int i = 0; i < kSize; ++i) values[i] += terms[i];
      }
      dx[u * Own::kStep] = to_pack<T>(values);
    });
  });
}

template <typename T, int kThreads, int kPer>
__global__ void __launch_bounds__(kThreads, ElementRows<T, kThreads, kPer>::kBlocks)
    grad_input_by_elements(NormGradInputArguments a) {
  using W = Wide<T>;
  using Own = ElementRows<T, kThreads, kPer>;
  const Own own(a.length);
  const auto count = static_cast<W>(a.length);
  const T* gamma = own.first(a.gamma, 0);
  for (std::int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    T x[kPer], dy[kPer];
    own.load(x, a.x, row);
    own.load(dy, a.dy, row);
    const W mean = a.is_centred ? static_cast<const W*>(a.mean)[row] : W(0);
    const W rstd = static_cast<const W*>(a.rstd)[row];
    W sum_g = 0, sum_gh = 0;
    own.for_each([&](int u) {
      const W g = widen(dy[u]) * widen(gamma[u * kThreads]);
      sum_g += g;
      sum_gh += g * ((widen(x[u]) - mean) * rstd);
    });
    const W average_g = a.is_centred ? over_group<kThreads>(sum_g, Plus()) / count : W(0);
    const W average_gh = over_group<kThreads>(sum_gh, Plus()) / count;
    const T* other = a.other == nullptr ? nullptr : own.first(a.other, row);
    T* dx = own.first(a.dx, row);
    own.for_each([&](int u) {
      const W g = widen(dy[u]) * widen(gamma[u * kThreads]);
      const W h = (widen(x[u]) - mean) * rstd;
      W value = rstd * (g - average_g - h * average_gh);
      if (other != nullptr) value += widen(other[u * kThreads]);
      put(dx + u * kThreads, a.adds_dx, value);
    });
  }
}

template <typename T>
bool start_by_elements(const NormGradInputArguments& a, cudaStream_t stream) {
  return with_element_rows<T>(a.length, [&]<typename Rows>() {
    grad_input_by_elements<T, Rows::kThreads, Rows::kPer>
        <<<row_blocks(a.rows, 1), Rows::kThreads, 0, stream>>>(a);
  });
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
  if (a.adds_dx || !has_packs<T>(a.length, {a.x, a.dy, a.gamma, a.other, a.dx})) return false;
  return with_row_shape(a.length / Pack<T>::kSize, [&]<typename Shape>() {
    const unsigned blocks = Shape::blocks(a.rows, a.in_company);
    if (a.is_centred)
      grad_input_in_registers<T, Shape, true><<<blocks, Shape::kBlock, 0, stream>>>(a);
    else
      grad_input_in_registers<T, Shape, false><<<blocks, Shape::kBlock, 0, stream>>>(a);
  });
}

// Sums of dy h and of dy (source of column_sums.cuh).
template <typename T, int kSizeOf, bool kIsCentred>
struct WeightSource {
  using Sum = Wide<T>;
  static constexpr int kSize = kSizeOf, kSums = kIsCentred ? 2 : 1;
  static constexpr int kRowsAtOnce = kSize == 1 ? 6 : 3;
  struct Loaded {
    Columns<T, kSize> x, dy;
    Sum mean, rstd;
  };
  const T *x, *dy;
  const Sum *mean, *rstd;

  __device__ __forceinline__ Loaded load(std::int64_t row, std::int64_t at) const {
    return {columns_at<kSize>(x + at), columns_at<kSize>(dy + at), kIsCentred ? mean[row] : Sum(0),
            rstd[row]};
  }
  __device__ __forceinline__ void add(const Loaded& loaded, Sum (&sums)[kSums][kSize]) const {
    Sum values[kSize], gradients[kSize];
    loaded.x.widen_to(values);
    loaded.dy.widen_to(gradients);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      sums[0][j] += gradients[j] * ((values[j] - loaded.mean) * loaded.rstd);
      if constexpr (kIsCentred) sums[1][j] += gradients[j];
    }
  }
};

template <typename W>
struct WeightSink {
  W *dgamma, *dbeta;
  bool adds_dgamma, adds_dbeta;
  __device__ void store(int sum, std::int64_t column, W value) const {
    if (sum == 0)
      put(dgamma + column, adds_dgamma, value);
    else
      put(dbeta + column, adds_dbeta, value);
  }
};

template <typename T, int kSize, bool kIsCentred>
cudaError_t start_weight_sums(const NormGradWeightArguments& a, cudaStream_t stream) {
  using W = Wide<T>;
  const WeightSource<T, kSize, kIsCentred> source = {
      static_cast<const T*>(a.x), static_cast<const T*>(a.dy), static_cast<const W*>(a.mean),
      static_cast<const W*>(a.rstd)};
  const WeightSink<W> sink = {static_cast<W*>(a.dgamma), static_cast<W*>(a.dbeta), a.adds_dgamma,
                              a.adds_dbeta};
  return enqueue_column_sums(source, sink, a.rows, a.length, a.scratch, a.finished, stream);
}

template <typename T, int kSize>
cudaError_t start_weight_sums(const NormGradWeightArguments& a, cudaStream_t stream) {
  return a.is_centred ? start_weight_sums<T, kSize, true>(a, stream)
                      : start_weight_sums<T, kSize, false>(a, stream);
}

}  // namespace

cudaError_t enqueue_norm_grad_input(const NormGradInputArguments& arguments, cudaStream_t stream) {
  if (arguments.rows == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if constexpr (sizeof(T) <= sizeof(float))
      if (start_in_registers<T>(arguments, stream)) return cudaGetLastError();
    if (start_by_elements<T>(arguments, stream)) return cudaGetLastError();
    grad_input_in_passes<T><<<row_blocks(arguments.rows, 1), kPassThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

cudaError_t enqueue_norm_grad_weight(const NormGradWeightArguments& arguments,
                                     cudaStream_t stream) {
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    return arguments.pack > 1 ? start_weight_sums<T, Pack<T>::kSize>(arguments, stream)
                              : start_weight_sums<T, 1>(arguments, stream);
  });
}

}  // namespace sextant
