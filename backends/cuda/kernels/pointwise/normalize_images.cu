// Bytes of images as numbers: 256 threads a block, of each four packs of 16 bytes of the output,
// all bytes read before the first is used. A pack lies in one plane, so it divides its place once.
// Planes that are no multiple of a pack go element by element. Not measured yet;
// normalize_images_test.cpp prints bytes per second.
#include "backends/cuda/kernels/pointwise/normalize_images.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/put.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kPacksPerThread = 4;

// In the host's order and roundings: core/operators/pointwise/normalize_images.h.
__device__ __forceinline__ float normalized(std::uint8_t value, const CudaChannelNumbers& channel) {
  const float share = __fdiv_rn(static_cast<float>(value), 255.0f);
  return __fdiv_rn(__fsub_rn(share, channel.mean), channel.deviation);
}

__device__ __forceinline__ const CudaChannelNumbers& channel_at(const NormalizeImagesArguments& x,
                                                                std::int64_t element) {
  return x.numbers[element / x.of_plane % x.channels];
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    normalize_packs(const __grid_constant__ NormalizeImagesArguments x) {
  constexpr int kSize = Pack<T>::kSize;
  using Bytes = Values<std::uint8_t, kSize>;
  const std::int64_t packs = x.elements / kSize;
  const std::int64_t first = std::int64_t{blockIdx.x} * (kThreads * kPacksPerThread) + threadIdx.x;
  Bytes bytes[kPacksPerThread];
#pragma unroll
  for (int p = 0; p < kPacksPerThread; ++p)
    bytes[p] = reinterpret_cast<const Bytes*>(x.in)[min(first + p * kThreads, packs - 1)];
#pragma unroll
  for (int p = 0; p < kPacksPerThread; ++p) {
    const std::int64_t pack = first + p * kThreads;
    if (pack >= packs) return;
    const CudaChannelNumbers channel = channel_at(x, pack * kSize);
    Pack<T> result;
#pragma unroll
    for (int i = 0; i < kSize; ++i)
      result.values[i] = narrow<T>(normalized(bytes[p].values[i], channel));
    static_cast<Pack<T>*>(x.out)[pack] = result;
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    normalize_elements(const __grid_constant__ NormalizeImagesArguments x) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= x.elements) return;
  const float value = normalized(x.in[i], channel_at(x, i));
  put(static_cast<T*>(x.out) + i, x.accumulate, static_cast<Wide<T>>(value));
}

unsigned blocks_for(std::int64_t count, std::int64_t of_block) {
  return static_cast<unsigned>((count + of_block - 1) / of_block);
}

}  // namespace

cudaError_t enqueue_normalize_images(const NormalizeImagesArguments& arguments,
                                     cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  return with_floating_type(arguments.to, [&]<typename T>() {
    constexpr std::int64_t kSize = Pack<T>::kSize;
    if (arguments.aligned && !arguments.accumulate && arguments.of_plane % kSize == 0)
      normalize_packs<T><<<blocks_for(arguments.elements / kSize, kThreads * kPacksPerThread),
                           kThreads, 0, stream>>>(arguments);
    else
      normalize_elements<T>
          <<<blocks_for(arguments.elements, kThreads), kThreads, 0, stream>>>(arguments);
    return cudaGetLastError();
  });
}

}  // namespace sextant
