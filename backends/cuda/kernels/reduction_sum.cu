// Sums, means and dot products over any dims (reduction.cuh).
#include "backends/cuda/kernels/reduction.cuh"

namespace sextant {
namespace {

template <typename T>
struct Sum : ReductionOp<T> {
  using W = Wide<T>;
  double divisor_;
  explicit Sum(const ReductionArguments& a) : ReductionOp<T>(a), divisor_(a.divisor) {}
  __device__ void add(W (&sums)[1], W x, W, W, std::int64_t) const { sums[0] = sum_of(sums[0], x); }
  __device__ void store(std::int64_t output, const W (&sums)[1]) const {
    if constexpr (std::is_same_v<W, std::int64_t>) {
      ReductionOp<T>::store(output, sums);
    } else {
      const W share[1] = {divisor_ == 1 ? sums[0] : sums[0] / static_cast<W>(divisor_)};
      ReductionOp<T>::store(output, share);
    }
  }
};

template <typename T>
struct Dot : ReductionOp<T> {
  using W = Wide<T>;
  static constexpr bool kHasB = true;
  using ReductionOp<T>::ReductionOp;
  __device__ void add(W (&sums)[1], W x, W b, W, std::int64_t) const { sums[0] += x * b; }
};

}  // namespace

cudaError_t enqueue_sum(const ReductionArguments& arguments, cudaStream_t stream) {
  if (arguments.reduction == Reduction::kDot)
    return with_floating_type(
        arguments.dtype, [&]<typename T>() { return start_reduction<Dot<T>>(arguments, stream); });
  return with_type(arguments.dtype,
                   [&]<typename T>() { return start_reduction<Sum<T>>(arguments, stream); });
}

}  // namespace sextant
