// A block per row: rows are vectors of a few KiB, and the launch is what it costs.
#include "backends/cuda/kernels/products/gather_rows.h"

namespace sextant {
namespace {

constexpr int kThreads = 256;

template <typename Word>
__global__ void gather_rows(GatherRowsArguments a) {
  const auto* from = static_cast<const Word*>(a.rows[blockIdx.x]);
  auto* to = reinterpret_cast<Word*>(static_cast<char*>(a.to) + blockIdx.x * a.stride);
  const std::int64_t words = a.bytes / static_cast<std::int64_t>(sizeof(Word));
  for (std::int64_t i = threadIdx.x; i < words; i += kThreads) to[i] = from[i];
}

}  // namespace

cudaError_t enqueue_gather_rows(const GatherRowsArguments& arguments, cudaStream_t stream) {
  if (arguments.count == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(arguments.count);
  if (arguments.is_aligned)
    gather_rows<uint4><<<blocks, kThreads, 0, stream>>>(arguments);
  else
    gather_rows<char><<<blocks, kThreads, 0, stream>>>(arguments);
  return cudaGetLastError();
}

}  // namespace sextant
