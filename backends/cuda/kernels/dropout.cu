// Dropout by the counter of each element, 256 threads a block, 16 bytes a thread at a time. Bound
// by the ten rounds of Philox per element, about 60 instructions, not by memory; so what stands
// before and behind it is free. The seed of the act is drawn once per block: the step is device
// memory. Results between x and the last one are not rounded.
#include "backends/cuda/kernels/dropout.h"
#include "backends/cuda/kernels/packs.cuh"
#include "backends/cuda/kernels/random.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 132 * 8;

template <typename T, int kSize, typename W>
__device__ __forceinline__ void load_either(const DropoutArguments& x, int operand, std::int64_t at,
                                            W* to) {
  if (kSize == 1 || x.strides.strides[operand][0] == 1)
    load_run<T, kSize>(x.in[operand], at, to);
  else
    load_repeated<T, kSize>(x.in[operand], at, to);
}

template <typename T, int kSize, typename W>
__device__ __forceinline__ void store_if_wanted(const DropoutArguments& x, int result,
                                                std::int64_t at, const W* from) {
  if (x.out[result] != nullptr) store_run<T, kSize>(x.out[result], at, x.accumulate[result], from);
}

template <typename T, int kSize, typename W>
__device__ __forceinline__ void add_operand(const DropoutArguments& x, int operand, std::int64_t at,
                                            W* values) {
  if (x.in[operand] == nullptr) return;
  W added[kSize];
  load_either<T, kSize>(x, operand, at, added);
#pragma unroll
  for (int j = 0; j < kSize; ++j) values[j] += added[j];
}

template <typename T, int kSize>
__global__ void __launch_bounds__(kThreads) drop(const DropoutArguments x) {
  using W = Wide<T>;
  __shared__ std::uint64_t shared_seed;
  if (threadIdx.x == 0)
    shared_seed = act_seed(x.mask.seed, x.mask.layer, *x.mask.step, x.mask.micro_batch);
  __syncthreads();
  const std::uint64_t seed = shared_seed;
  const auto scale = static_cast<W>(x.scale);
  const std::int64_t packs = x.elements / kSize, stride = std::int64_t{gridDim.x} * kThreads;
  const std::int64_t index_stride = x.strides.strides[DropoutArguments::kIndex][0];
  for (std::int64_t pack = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; pack < packs;
       pack += stride) {
    std::int64_t at[4];
    locate(x.strides, x.elements, pack * kSize, at);
    W values[kSize];
    load_either<T, kSize>(x, DropoutArguments::kX, at[0], values);
    add_operand<T, kSize>(x, DropoutArguments::kBias, at[1], values);
    store_if_wanted<T, kSize>(x, 0, pack * kSize, values);
    const std::int64_t index = x.mask.first_index + at[DropoutArguments::kIndex];
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      const std::uint64_t bits =
          random_bits(seed, x.mask.stream, static_cast<std::uint64_t>(index + j * index_stride));
      values[j] = bits >> 11 >= x.mask.threshold ? scale * values[j] : W(0);
    }
    store_if_wanted<T, kSize>(x, 1, pack * kSize, values);
    add_operand<T, kSize>(x, DropoutArguments::kResidual, at[2], values);
    store_if_wanted<T, kSize>(x, 2, pack * kSize, values);
  }
}

template <typename T, int kSize>
cudaError_t start(const DropoutArguments& arguments, cudaStream_t stream) {
  const std::int64_t wanted = (arguments.elements / kSize + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMostBlocks ? wanted : kMostBlocks);
  drop<T, kSize><<<blocks, kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace

cudaError_t enqueue_dropout(const DropoutArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    return arguments.falls_into_packs ? start<T, 16 / sizeof(T)>(arguments, stream)
                                      : start<T, 1>(arguments, stream);
  });
}

}  // namespace sextant
