// Dropout by the counter of each element, 256 threads a block, 16 bytes a thread at a time, as many
// blocks as run at once. An element costs a Philox of its own (one index, one block:
// core/base/counter_rng.h): 17 products of 32 bits and as many three-way exclusive ors behind what
// all share, about 45 instructions with the rest. They bound it, not memory; what stands before and
// behind it is nearly free. The seed of the act is drawn once per block: the step is device memory.
// Results between x and the last one are not rounded.
#include "backends/cuda/kernels/pointwise/dropout.h"
#include "backends/cuda/kernels/pointwise/packs.cuh"
#include "backends/cuda/kernels/shared/one_wave.h"
#include "backends/cuda/kernels/shared/random.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;

// How an instantiation walks: packs of kSize elements; kOneRun: no operand stretches.
template <typename T, int kElements, bool kAlike>
struct Walk {
  using Type = T;
  using W = Wide<T>;
  static constexpr int kSize = kElements;
  static constexpr bool kOneRun = kAlike;
};

template <typename Walk>
__device__ __forceinline__ void load_either(const DropoutArguments& x, int operand, std::int64_t at,
                                            typename Walk::W* to) {
  using T = typename Walk::Type;
  if (Walk::kSize == 1 || Walk::kOneRun || x.strides.strides[operand][0] == 1)
    load_run<T, Walk::kSize>(x.in[operand], at, to);
  else
    load_repeated<T, Walk::kSize>(x.in[operand], at, to);
}

template <typename Walk>
__device__ __forceinline__ void store_if_wanted(const DropoutArguments& x, int result,
                                                std::int64_t at, const typename Walk::W* from) {
  if (x.out[result] != nullptr)
    store_run<typename Walk::Type, Walk::kSize>(x.out[result], at, x.accumulate[result], from);
}

template <typename Walk>
__device__ __forceinline__ void add_operand(const DropoutArguments& x, int operand, std::int64_t at,
                                            typename Walk::W* values) {
  if (x.in[operand] == nullptr) return;
  typename Walk::W added[Walk::kSize];
  load_either<Walk>(x, operand, at, added);
#pragma unroll
  for (int j = 0; j < Walk::kSize; ++j) values[j] += added[j];
}

// `index`: of the first value, `stride` from one to the next.
template <typename Walk>
__device__ __forceinline__ void keep_or_drop(const DropoutMask& mask, const StreamDraws& draws,
                                             std::uint32_t index, std::uint32_t stride,
                                             typename Walk::W scale, typename Walk::W* values) {
  using W = typename Walk::W;
  if (!mask.keeps_any) {
#pragma unroll
    for (int j = 0; j < Walk::kSize; ++j) values[j] = W(0);
    return;
  }
#pragma unroll
  for (int j = 0; j < Walk::kSize; ++j)
    values[j] = draws.bits(index + j * stride) >= mask.least ? scale * values[j] : W(0);
}

template <typename Walk>
__global__ void __launch_bounds__(kThreads) drop(const DropoutArguments x) {
  using W = typename Walk::W;
  constexpr int kSize = Walk::kSize;
  __shared__ std::uint64_t shared_seed;
  if (threadIdx.x == 0)
    shared_seed = act_seed(x.mask.seed, x.mask.layer, *x.mask.step, x.mask.micro_batch);
  __syncthreads();
  const std::uint64_t seed = shared_seed;
  const StreamDraws of_low_indices(seed, x.mask.stream, 0);
  const auto scale = static_cast<W>(x.scale);
  const std::int64_t packs = x.elements / kSize, stride = std::int64_t{gridDim.x} * kThreads;
  const auto index_stride =
      Walk::kOneRun ? 1u
                    : static_cast<std::uint32_t>(x.strides.strides[DropoutArguments::kIndex][0]);
  for (std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; pack < packs;
       pack += stride) {
    const std::int64_t first = pack * kSize;
    std::int64_t at[4] = {first, first, first, first};
    if constexpr (kSize == 1)
      locate(x.strides, x.elements, first, at);
    else if constexpr (!Walk::kOneRun)
      locate_in<std::uint32_t>(x.strides, first, at);
    W values[kSize];
    load_either<Walk>(x, DropoutArguments::kX, at[0], values);
    add_operand<Walk>(x, DropoutArguments::kBias, at[1], values);
    store_if_wanted<Walk>(x, 0, first, values);
    const auto index =
        static_cast<std::uint64_t>(x.mask.first_index + at[DropoutArguments::kIndex]);
    if constexpr (kSize > 1)
      keep_or_drop<Walk>(x.mask, of_low_indices, low_half(index), index_stride, scale, values);
    else
      keep_or_drop<Walk>(x.mask, StreamDraws(seed, x.mask.stream, high_half(index)),
                         low_half(index), index_stride, scale, values);
    store_if_wanted<Walk>(x, 1, first, values);
    add_operand<Walk>(x, DropoutArguments::kResidual, at[2], values);
    store_if_wanted<Walk>(x, 2, first, values);
  }
}

template <typename Walk>
cudaError_t start(const DropoutArguments& arguments, cudaStream_t stream) {
  const std::int64_t wanted = (arguments.elements / Walk::kSize + kThreads - 1) / kThreads;
  unsigned blocks = 0;
  const cudaError_t status = blocks_at_once(drop<Walk>, kThreads, wanted, blocks);
  if (status != cudaSuccess) return status;
  drop<Walk><<<blocks, kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_dropout(const DropoutArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    constexpr int kPack = 16 / sizeof(T);
    if (arguments.is_one_run) return start<Walk<T, kPack, true>>(arguments, stream);
    return arguments.falls_into_packs ? start<Walk<T, kPack, false>>(arguments, stream)
                                      : start<Walk<T, 1, false>>(arguments, stream);
  });
}

}  // namespace sextant
