// Sums and means over any dims (reduction.cuh).
#include "backends/cuda/kernels/reductions/reduction.cuh"

namespace sextant {
namespace {

template <typename T>
struct Sum : ReductionOp<T> {
  using W = Wide<T>;
  using ReductionOp<T>::ReductionOp;
  template <int kCount>
  __device__ void add(W (&sums)[1], const W (&x)[kCount], const W (&)[kCount], W, std::int64_t,
                      std::int64_t) const {
#pragma unroll
    for (const W value : x) sums[0] = sum_of(sums[0], value);
  }
};

}  // namespace

cudaError_t enqueue_sum(const ReductionArguments& arguments, cudaStream_t stream) {
  return with_type(arguments.dtype,
                   [&]<typename T>() { return start_reduction<Sum<T>>(arguments, stream); });
}

}  // namespace sextant
