// The number of the step, and copies between the arena and the host's buffers of that step. The
// copies are latency of the bus, not bandwidth: tokens of a step are 100 KiB, so a few blocks with
// 16 bytes per thread in flight do.
#include "backends/cuda/step_number.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 264;  // two per multiprocessor of an H200

__global__ void write_number(std::int64_t* number, std::int64_t step) { *number = step; }

__global__ void add_one(std::int64_t* number) { *number += 1; }

__global__ void copy_of_step(HostCopyArguments arguments) {
  const std::int64_t turn = *arguments.step % arguments.turns;
  std::byte* host = arguments.host + turn * arguments.stride;
  const std::byte* from = arguments.to_host ? arguments.device : host;
  std::byte* to = arguments.to_host ? host : arguments.device;
  const std::int64_t packs = arguments.bytes / 16;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = first; i < packs; i += threads)
    reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  for (std::int64_t i = packs * 16 + first; i < arguments.bytes; i += threads) to[i] = from[i];
}

}  // namespace

cudaError_t enqueue_step_number(std::int64_t* number, std::int64_t step, cudaStream_t stream) {
  write_number<<<1, 1, 0, stream>>>(number, step);
  return cudaGetLastError();
}

cudaError_t enqueue_next_step_number(std::int64_t* number, cudaStream_t stream) {
  add_one<<<1, 1, 0, stream>>>(number);
  return cudaGetLastError();
}

cudaError_t enqueue_host_copy(const HostCopyArguments& arguments, cudaStream_t stream) {
  if (arguments.bytes == 0) return cudaSuccess;
  const std::int64_t wanted = (arguments.bytes / 16 + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(std::clamp(wanted, std::int64_t{1}, kMostBlocks));
  copy_of_step<<<blocks, kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace sextant
