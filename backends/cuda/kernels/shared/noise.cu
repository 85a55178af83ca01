// A grid-stride loop, 256 threads a block; measured by nobody.
#include "backends/cuda/kernels/shared/eight_bits.cuh"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/noise.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 2048;

// The finaliser of SplitMix64.
__device__ std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

template <typename T>
__global__ void noise(T* data, std::int64_t elements) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    const auto bits = static_cast<std::uint32_t>(mixed(static_cast<std::uint64_t>(i)) >> 40);
    data[i] = narrow<T>(static_cast<Wide<T>>(bits) * static_cast<Wide<T>>(0x1p-23) - Wide<T>(1));
  }
}

// As quantized tensors have it: up to the largest value.
__global__ void noise_of_8_bits(DType dtype, std::uint8_t* data, std::int64_t elements) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    const auto bits = static_cast<std::uint32_t>(mixed(static_cast<std::uint64_t>(i)) >> 40);
    const float value = static_cast<float>(bits) * 0x1p-23f - 1.0f;
    data[i] = to_8_bits(dtype, value * (dtype == DType::kE4M3 ? 448.0f : 57344.0f));
  }
}

}  // namespace

cudaError_t enqueue_noise(const NoiseArguments& arguments, cudaStream_t stream) {
  if (arguments.elements == 0) return cudaSuccess;
  const std::int64_t wanted = (arguments.elements + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
  if (is_8_bits(arguments.dtype)) {
    noise_of_8_bits<<<blocks, kThreads, 0, stream>>>(
        arguments.dtype, static_cast<std::uint8_t*>(arguments.data), arguments.elements);
    return cudaGetLastError();
  }
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    noise<T><<<blocks, kThreads, 0, stream>>>(static_cast<T*>(arguments.data), arguments.elements);
    return cudaGetLastError();
  });
}

}  // namespace sextant
