// One thread per element, 256 a block; every hop rounds to the element's type, as the CPU does, so
// that sums have its bits. Limited by the inputs it reads.
#include "backends/cuda/kernels/movement/ring_reduce.h"
#include "backends/cuda/kernels/shared/elements.cuh"
#include "backends/cuda/kernels/shared/grid.h"
#include "backends/cuda/kernels/shared/reduce.cuh"

namespace sextant {
namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMostReduceBlocks = 1 << 16;

// The balanced part that holds the element: the first `elements % members` have one more.
__device__ __forceinline__ int part_of(std::int64_t element, std::int64_t elements, int members) {
  const std::int64_t share = elements / members, longer = elements % members;
  const std::int64_t in_longer = longer * (share + 1);
  return static_cast<int>(element < in_longer ? element / (share + 1)
                                              : longer + (element - in_longer) / share);
}

template <typename T, typename Combine>
__global__ void __launch_bounds__(kThreads)
    reduce_along_ring(const __grid_constant__ CudaRingReduce reduce) {
  const Combine combine{};
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < reduce.elements;
       i += stride) {
    int member = reduce.owner >= 0 ? reduce.owner : part_of(i, reduce.elements, reduce.members);
    T value;
    for (int hop = 0; hop < reduce.members; ++hop) {
      member = member + 1 == reduce.members ? 0 : member + 1;
      const T next = static_cast<const T*>(reduce.from[member])[i];
      value = hop == 0 ? next : narrow<T>(combine(widen(value), widen(next)));
    }
    static_cast<T*>(reduce.to)[i] = value;
  }
}

struct StartRingReduce {
  const CudaRingReduce& reduce;
  cudaStream_t stream;
  template <typename T>
  cudaError_t operator()() const {
    const unsigned blocks = blocks_for(reduce.elements, kThreads, kMostReduceBlocks);
    switch (reduce.op) {
      case ReduceOp::kSum:
        reduce_along_ring<T, Plus><<<blocks, kThreads, 0, stream>>>(reduce);
        break;
      case ReduceOp::kMax:
        reduce_along_ring<T, Larger><<<blocks, kThreads, 0, stream>>>(reduce);
        break;
      case ReduceOp::kMin:
        reduce_along_ring<T, Smaller><<<blocks, kThreads, 0, stream>>>(reduce);
        break;
    }
    return cudaGetLastError();
  }
};

}  // namespace

cudaError_t enqueue_ring_reduce(const CudaRingReduce& reduce, cudaStream_t stream) {
  if (reduce.members < 1 || reduce.members > kMostRingMembers) return cudaErrorInvalidValue;
  if (reduce.elements == 0) return cudaSuccess;
  return with_type(reduce.dtype, StartRingReduce{reduce, stream});
}

}  // namespace sextant
