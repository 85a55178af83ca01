// Reductions with a value per output: exponentials, squares, counts (reduction.cuh).
#include "backends/cuda/kernels/exponential.cuh"
#include "backends/cuda/kernels/reduction.cuh"

namespace sextant {
namespace {

template <typename T>
struct SumExp : ReductionOp<T> {
  using W = Wide<T>;
  const T* max_;
  explicit SumExp(const ReductionArguments& a)
      : ReductionOp<T>(a), max_(static_cast<const T*>(a.of_output)) {}
  __device__ W of_output(std::int64_t output) const { return widen(max_[output]); }
  __device__ void add(W (&sums)[1], W x, W, W max, std::int64_t) const {
    sums[0] += exponential<T>(x - max);
  }
};

template <typename T>
struct Squares : ReductionOp<T> {
  using W = Wide<T>;
  const W* mean_;
  explicit Squares(const ReductionArguments& a)
      : ReductionOp<T>(a), mean_(static_cast<const W*>(a.of_output)) {}
  __device__ W of_output(std::int64_t output) const {
    return mean_ != nullptr ? mean_[output] : W(0);
  }
  __device__ void add(W (&sums)[1], W x, W, W mean, std::int64_t) const {
    sums[0] += (x - mean) * (x - mean);
  }
};

template <typename T>
struct Count : ReductionOp<T> {
  using W = Wide<T>;
  const T* extremum_;
  explicit Count(const ReductionArguments& a)
      : ReductionOp<T>(a), extremum_(static_cast<const T*>(a.of_output)) {}
  __device__ W of_output(std::int64_t output) const { return widen(extremum_[output]); }
  __device__ void add(W (&sums)[1], W x, W, W extremum, std::int64_t) const {
    if (is_same(x, extremum)) sums[0] += W(1);
  }
};

}  // namespace

cudaError_t enqueue_piece(const ReductionArguments& arguments, cudaStream_t stream) {
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if (arguments.reduction == Reduction::kSumExp)
      return start_reduction<SumExp<T>>(arguments, stream);
    if (arguments.reduction == Reduction::kSquares)
      return start_reduction<Squares<T>>(arguments, stream);
    return start_reduction<Count<T>>(arguments, stream);
  });
}

}  // namespace sextant
