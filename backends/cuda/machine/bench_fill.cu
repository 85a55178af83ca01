// Grid-stride loops of 256 threads; nothing here is timed itself but `enqueue_nothing`.
#include "backends/cuda/machine/bench_fill.h"

#include <cuda_bf16.h>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

// A hash with good low bits (lowbias32 of C. Wellons).
__device__ std::uint32_t mixed(std::uint64_t index) {
  auto x =
      static_cast<std::uint32_t>(index) ^ static_cast<std::uint32_t>(index >> 32) * 0x9E3779B9U;
  x = (x ^ (x >> 16)) * 0x7FEB352DU;
  x = (x ^ (x >> 15)) * 0x846CA68BU;
  return x ^ (x >> 16);
}

__global__ void fill_normal(__nv_bfloat16* to, std::size_t count) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float u = (static_cast<float>(mixed(2 * i) >> 8) + 0.5F) * 0x1p-24F;
    const float v = static_cast<float>(mixed(2 * i + 1) >> 8) * 0x1p-24F;
    to[i] = __float2bfloat16(sqrtf(-2.0F * logf(u)) * cospif(2.0F * v));
  }
}

template <typename Integer>
__global__ void fill_ids(Integer* to, std::size_t count, std::int64_t limit) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride)
    to[i] = static_cast<Integer>(mixed(i) % static_cast<std::uint64_t>(limit));
}

__global__ void read_all(const uint4* from, std::size_t count, std::uint32_t* never) {
  const std::size_t stride = std::size_t{gridDim.x} * blockDim.x;
  std::uint32_t sum = 0;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 four = from[i];
    sum |= four.x | four.y | four.z | four.w;
  }
  // The memory read is all zero; the compiler does not know.
  if (sum != 0) *never = sum;
}

__global__ void nothing() {}

}  // namespace

cudaError_t enqueue_fill_normal(void* to, std::size_t bytes, cudaStream_t stream) {
  fill_normal<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(to), bytes / 2);
  return cudaGetLastError();
}

cudaError_t enqueue_fill_ids(std::int32_t* to, std::size_t count, std::int64_t limit,
                             cudaStream_t stream) {
  fill_ids<<<kBlocks, kThreads, 0, stream>>>(to, count, limit);
  return cudaGetLastError();
}

cudaError_t enqueue_fill_ids(std::int64_t* to, std::size_t count, std::int64_t limit,
                             cudaStream_t stream) {
  fill_ids<<<kBlocks, kThreads, 0, stream>>>(to, count, limit);
  return cudaGetLastError();
}

cudaError_t enqueue_read(const void* from, std::size_t bytes, std::uint32_t* never,
                         cudaStream_t stream) {
  read_all<<<kBlocks, kThreads, 0, stream>>>(static_cast<const uint4*>(from), bytes / sizeof(uint4),
                                             never);
  return cudaGetLastError();
}

cudaError_t enqueue_nothing(cudaStream_t stream) {
  nothing<<<1, 32, 0, stream>>>();
  return cudaGetLastError();
}

}  // namespace sextant
