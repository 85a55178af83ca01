// One pass over operands 16 bytes at a time: the launch of a function object over all elements.
// 256 threads a block, two packs a thread, all loads before the first store.
//
// A function object F says how many inputs and results it has (kInputs, kResults), the types of
// their elements (Input<k>, Output<k>), the wide type W it computes in, how many elements a pack
// has (kSize), and computes `of(const W* in, W* results)` for one place.
#pragma once

#include "backends/cuda/kernels/pointwise/arithmetic.cuh"
#include "backends/cuda/kernels/shared/strides.h"

#include <cstdint>
#include <type_traits>
#include <utility>

namespace sextant {

inline constexpr int kPackThreads = 256;
inline constexpr int kPacksPerThread = 2;

struct PackOperands {
  const void* in[4] = {};
  void* out[3] = {};  // nullptr: nobody wants the result
  bool accumulate[3] = {};
  std::int64_t elements = 0;
};

// Where an element of the output falls in operand k, dims before the last one included.
template <typename Index, int kOperands>
__device__ __forceinline__ void locate_in(const Strides& strides, std::int64_t element,
                                          std::int64_t (&at)[kOperands]) {
  auto rest = static_cast<Index>(element);
#pragma unroll
  for (int k = 0; k < kOperands; ++k) at[k] = 0;
  for (int dim = 0; dim + 1 < strides.dims; ++dim) {
    const auto extent = static_cast<Index>(strides.extents[dim]);
    const Index quotient = rest / extent;
    const auto index = static_cast<std::int64_t>(rest - quotient * extent);
#pragma unroll
    for (int k = 0; k < kOperands; ++k) at[k] += index * strides.strides[k][dim];
    rest = quotient;
  }
#pragma unroll
  for (int k = 0; k < kOperands; ++k)
    at[k] += static_cast<std::int64_t>(rest) * strides.strides[k][strides.dims - 1];
}

template <int kOperands>
__device__ __forceinline__ void locate(const Strides& strides, std::int64_t elements,
                                       std::int64_t element, std::int64_t (&at)[kOperands]) {
  if (elements <= UINT32_MAX)  // divisions of 32 bits are four times as fast
    locate_in<std::uint32_t>(strides, element, at);
  else
    locate_in<std::uint64_t>(strides, element, at);
}

template <typename T, int kSize, typename W>
__device__ __forceinline__ void load_run(const void* data, std::int64_t at, W* to) {
  const auto run = *reinterpret_cast<const Values<T, kSize>*>(static_cast<const T*>(data) + at);
#pragma unroll
  for (int j = 0; j < kSize; ++j) to[j] = static_cast<W>(widen(run.values[j]));
}

template <typename T, int kSize, typename W>
__device__ __forceinline__ void load_repeated(const void* data, std::int64_t at, W* to) {
  const W value = static_cast<W>(widen(static_cast<const T*>(data)[at]));
#pragma unroll
  for (int j = 0; j < kSize; ++j) to[j] = value;
}

template <typename T, int kSize, typename W>
__device__ __forceinline__ void store_run(void* data, std::int64_t at, bool accumulate,
                                          const W* from) {
  auto* to = reinterpret_cast<Values<T, kSize>*>(static_cast<T*>(data) + at);
  Values<T, kSize> run;
  if (accumulate) {
    run = *to;
#pragma unroll
    for (int j = 0; j < kSize; ++j) run.values[j] = added(run.values[j], from[j]);
  } else {
#pragma unroll
    for (int j = 0; j < kSize; ++j) run.values[j] = stored<T>(from[j]);
  }
  *to = run;
}

template <typename F, int... kIn>
__device__ __forceinline__ void load_inputs(const PackOperands& x, std::int64_t element,
                                            typename F::W (*in)[F::kSize],
                                            std::integer_sequence<int, kIn...>) {
  (load_run<typename F::template Input<kIn>, F::kSize>(x.in[kIn], element, in[kIn]), ...);
}

template <typename F, int... kIn>
__device__ __forceinline__ void load_strided(const PackOperands& x, const Strides& strides,
                                             std::int64_t element, typename F::W (*in)[F::kSize],
                                             std::integer_sequence<int, kIn...>) {
  std::int64_t at[F::kInputs];
  locate(strides, x.elements, element, at);
  const auto load = [&]<int k>() {
    if (strides.strides[k][0] == 0)
      load_repeated<typename F::template Input<k>, F::kSize>(x.in[k], at[k], in[k]);
    else
      load_run<typename F::template Input<k>, F::kSize>(x.in[k], at[k], in[k]);
  };
  (load.template operator()<kIn>(), ...);
}

template <typename F, int... kOut>
__device__ __forceinline__ void store_results(const F& f, const PackOperands& x,
                                              std::int64_t element,
                                              const typename F::W (*in)[F::kSize],
                                              std::integer_sequence<int, kOut...>) {
  typename F::W results[F::kResults][F::kSize];
#pragma unroll
  for (int j = 0; j < F::kSize; ++j) {
    typename F::W operands[F::kInputs], values[F::kResults];
#pragma unroll
    for (int k = 0; k < F::kInputs; ++k) operands[k] = in[k][j];
    f.of(operands, values);
#pragma unroll
    for (int k = 0; k < F::kResults; ++k) results[k][j] = values[k];
  }
  const auto store = [&]<int k>() {
    if (F::kResults == 1 || x.out[k] != nullptr)
      store_run<typename F::template Output<k>, F::kSize>(x.out[k], element, x.accumulate[k],
                                                          results[k]);
  };
  (store.template operator()<kOut>(), ...);
}

template <typename F>
using Inputs = std::make_integer_sequence<int, F::kInputs>;
template <typename F>
using Results = std::make_integer_sequence<int, F::kResults>;

// F, one element at a time.
template <typename F>
struct Single : F {
  static constexpr int kSize = 1;
};

// The elements behind the last whole pack, or all of them when none is whole.
template <typename F>
__device__ __forceinline__ void pass_one_by_one(const Single<F>& f, const PackOperands& x,
                                                std::int64_t from) {
  constexpr Inputs<F> inputs{};
  constexpr Results<F> results{};
  const std::int64_t stride = std::int64_t{gridDim.x} * kPackThreads;
  for (std::int64_t i = from + std::int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
       i < x.elements; i += stride) {
    typename F::W in[F::kInputs][1];
    load_inputs<Single<F>>(x, i, in, inputs);
    store_results(f, x, i, in, results);
  }
}

// `packs` whole packs, at addresses that allow them.
template <typename F>
__global__ void __launch_bounds__(kPackThreads)
    pass_over_runs(const F f, const PackOperands x, std::int64_t packs) {
  constexpr Inputs<F> inputs{};
  constexpr Results<F> results{};
  if (packs > 0) {
    const std::int64_t first =
        std::int64_t{blockIdx.x} * (kPackThreads * kPacksPerThread) + threadIdx.x;
    typename F::W in[kPacksPerThread][F::kInputs][F::kSize];
    // Loads are not guarded, so that they are in flight together: beyond the end the last pack.
#pragma unroll
    for (int p = 0; p < kPacksPerThread; ++p) {
      const std::int64_t pack = min(first + p * kPackThreads, packs - 1);
      load_inputs<F>(x, pack * F::kSize, in[p], inputs);
    }
#pragma unroll
    for (int p = 0; p < kPacksPerThread; ++p) {
      const std::int64_t pack = first + p * kPackThreads;
      if (pack < packs) store_results(f, x, pack * F::kSize, in[p], results);
    }
  }
  pass_one_by_one<F>({f}, x, packs * F::kSize);
}

// The same where operands stretch; the innermost extent is a multiple of the pack.
template <typename F>
__global__ void __launch_bounds__(kPackThreads)
    pass_over_packs(const F f, const PackOperands x, const Strides strides) {
  constexpr Inputs<F> inputs{};
  constexpr Results<F> results{};
  const std::int64_t packs = x.elements / F::kSize;
  const std::int64_t first =
      std::int64_t{blockIdx.x} * (kPackThreads * kPacksPerThread) + threadIdx.x;
  typename F::W in[kPacksPerThread][F::kInputs][F::kSize];
#pragma unroll
  for (int p = 0; p < kPacksPerThread; ++p) {
    const std::int64_t pack = min(first + p * kPackThreads, packs - 1);
    load_strided<F>(x, strides, pack * F::kSize, in[p], inputs);
  }
#pragma unroll
  for (int p = 0; p < kPacksPerThread; ++p) {
    const std::int64_t pack = first + p * kPackThreads;
    if (pack < packs) store_results(f, x, pack * F::kSize, in[p], results);
  }
}

inline unsigned blocks_of_packs(std::int64_t packs) {
  constexpr std::int64_t kPerBlock = kPackThreads * kPacksPerThread;
  return static_cast<unsigned>((packs + kPerBlock - 1) / kPerBlock);
}

// All operands are one run of `x.elements` elements; `aligned`: to 16 bytes.
template <typename F>
cudaError_t enqueue_over_runs(const F& f, const PackOperands& x, bool aligned,
                              cudaStream_t stream) {
  if (x.elements == 0) return cudaSuccess;
  const std::int64_t packs = aligned ? x.elements / F::kSize : 0;
  const unsigned blocks = blocks_of_packs(aligned ? packs + 1 : x.elements);
  pass_over_runs<<<blocks, kPackThreads, 0, stream>>>(f, x, packs);
  return cudaGetLastError();
}

template <typename F>
cudaError_t enqueue_over_packs(const F& f, const PackOperands& x, const Strides& strides,
                               cudaStream_t stream) {
  if (x.elements == 0) return cudaSuccess;
  pass_over_packs<<<blocks_of_packs(x.elements / F::kSize), kPackThreads, 0, stream>>>(f, x,
                                                                                       strides);
  return cudaGetLastError();
}

}  // namespace sextant
