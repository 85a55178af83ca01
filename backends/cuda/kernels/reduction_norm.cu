// The sums in the gradients of norms whose rows may be split (reduction.cuh).
#include "backends/cuda/kernels/reduction.cuh"

namespace sextant {
namespace {

template <typename T>
struct GradSums : ReductionOp<T> {
  using W = Wide<T>;
  static constexpr int kSums = 2;
  static constexpr bool kHasB = true;  // dy
  const W* mean_;
  const T* gamma_;
  explicit GradSums(const ReductionArguments& a)
      : ReductionOp<T>(a),
        mean_(static_cast<const W*>(a.of_output)),
        gamma_(static_cast<const T*>(a.gamma)) {}
  __device__ W of_output(std::int64_t output) const {
    return mean_ != nullptr ? mean_[output] : W(0);
  }
  __device__ void add(W (&sums)[2], W x, W dy, W mean, std::int64_t second) const {
    const W g = dy * widen(gamma_[second]);
    sums[0] += g;
    sums[1] += g * (x - mean);
  }
};

template <typename T>
struct GradWeight : ReductionOp<T> {
  using W = Wide<T>;
  static constexpr int kSums = 2;
  static constexpr bool kHasB = true;  // dy
  const W *mean_, *rstd_;
  explicit GradWeight(const ReductionArguments& a)
      : ReductionOp<T>(a),
        mean_(static_cast<const W*>(a.mean)),
        rstd_(static_cast<const W*>(a.rstd)) {}
  __device__ void add(W (&sums)[2], W x, W dy, W, std::int64_t second) const {
    const W mean = mean_ != nullptr ? mean_[second] : W(0);
    sums[0] += dy * (x - mean) * rstd_[second];
    sums[1] += dy;
  }
};

}  // namespace

cudaError_t enqueue_norm_piece(const ReductionArguments& arguments, cudaStream_t stream) {
  return with_floating_type(arguments.dtype, [&]<typename T>() {
    if (arguments.reduction == Reduction::kGradSums)
      return start_reduction<GradSums<T>>(arguments, stream);
    return start_reduction<GradWeight<T>>(arguments, stream);
  });
}

}  // namespace sextant
