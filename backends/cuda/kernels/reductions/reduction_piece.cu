// Sums that depend on a value per output: of exponentials, squares, counts (reduction.cuh).
#include "backends/cuda/kernels/reductions/reduction.cuh"
#include "backends/cuda/kernels/shared/exponential.cuh"

namespace sextant {
namespace {

// Equal, or both NaN.
template <typename W>
__device__ __forceinline__ bool is_same(W a, W b) {
  return a == b || (a != a && b != b);
}

template <typename T>
struct Piece : ReductionOp<T> {
  using W = Wide<T>;
  Reduction reduction_;
  const void* value_;
  explicit Piece(const ReductionArguments& a)
      : ReductionOp<T>(a), reduction_(a.reduction), value_(a.of_output) {}
  __device__ W of_output(std::int64_t output) const {
    if (value_ == nullptr) return 0;
    if (reduction_ == Reduction::kSquares) return static_cast<const W*>(value_)[output];
    return widen(static_cast<const T*>(value_)[output]);
  }
  template <int kCount>
  __device__ void add(W (&sums)[1], const W (&x)[kCount], const W (&)[kCount], W of_output,
                      std::int64_t, std::int64_t) const {
    if (reduction_ == Reduction::kCount) {
#pragma unroll
      for (const W value : x) sums[0] += is_same(value, of_output) ? W(1) : W(0);
    } else if (reduction_ == Reduction::kSquares) {
#pragma unroll
      for (const W value : x) sums[0] += (value - of_output) * (value - of_output);
    } else {
#pragma unroll
      for (const W value : x) sums[0] += exponential<T>(value - of_output);
    }
  }
};

}  // namespace

cudaError_t enqueue_piece(const ReductionArguments& arguments, cudaStream_t stream) {
  return with_floating_type(
      arguments.dtype, [&]<typename T>() { return start_reduction<Piece<T>>(arguments, stream); });
}

}  // namespace sextant
