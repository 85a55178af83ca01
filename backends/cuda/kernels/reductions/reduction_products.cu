// Sums of products of two operands over any dims: dot products, and the sums in the gradients of
// norms whose rows may be split (reduction.cuh).
#include "backends/cuda/kernels/reductions/reduction.cuh"

namespace sextant {
namespace {

template <typename T>
struct Products : ReductionOp<T> {
  using W = Wide<T>;
  static constexpr int kSums = 2;
  static constexpr bool kHasB = true;
  const W *of_output_, *mean_, *rstd_;
  const T* gamma_;
  explicit Products(const ReductionArguments& a)
      : ReductionOp<T>(a),
        of_output_(static_cast<const W*>(a.of_output)),
        mean_(static_cast<const W*>(a.mean)),
        rstd_(static_cast<const W*>(a.rstd)),
        gamma_(static_cast<const T*>(a.gamma)) {}
  __device__ W of_output(std::int64_t output) const {
    return of_output_ != nullptr ? of_output_[output] : W(0);
  }
  template <int kCount>
  __device__ void add(W (&sums)[2], W (&x)[kCount], W (&b)[kCount], W of_output,
                      std::int64_t second, std::int64_t step) const {
    if (gamma_ != nullptr) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) b[i] *= widen(gamma_[second + i * step]);
    }
    if (mean_ != nullptr) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) x[i] -= mean_[second + i * step];
    }
    W factors[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) factors[i] = b[i] * (x[i] - of_output);
    if (rstd_ != nullptr) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) factors[i] *= rstd_[second + i * step];
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums[0] += b[i];
      sums[1] += factors[i];
    }
  }
};

}  // namespace

cudaError_t enqueue_products(const ReductionArguments& arguments, cudaStream_t stream) {
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    return start_reduction<Products<T>>(arguments, stream);
  });
}

}  // namespace sextant
