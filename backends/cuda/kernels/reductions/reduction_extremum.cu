// Maxima and minima over any dims (reduction.cuh). A minimum is the maximum of the values in the
// opposite order, so that one kernel serves both.
#include "backends/cuda/kernels/reductions/reduction.cuh"

namespace sextant {
namespace {

template <typename T>
struct Extremum : ReductionOp<T> {
  using W = Wide<T>;
  static constexpr bool kIsExtremum = true;
  bool is_opposite_;
  explicit Extremum(const ReductionArguments& a) : ReductionOp<T>(a), is_opposite_(a.is_opposite) {}
  // What an extremum over nothing is: of the lowest or the highest value of the type.
  __device__ W neutral() const {
    if constexpr (std::is_same_v<T, bool>)
      return is_opposite_ ? opposite(W(1)) : W(0);
    else if constexpr (std::is_same_v<T, std::int32_t>)
      return INT32_MIN;
    else if constexpr (std::is_same_v<T, std::int64_t>)
      return INT64_MIN;
    else
      return -static_cast<W>(INFINITY);
  }
  template <int kCount>
  __device__ void add(W (&sums)[1], const W (&x)[kCount], const W (&)[kCount], W, std::int64_t,
                      std::int64_t) const {
#pragma unroll
    for (const W value : x) sums[0] = Larger()(sums[0], is_opposite_ ? opposite(value) : value);
  }
};

}  // namespace

cudaError_t enqueue_extremum(const ReductionArguments& arguments, cudaStream_t stream) {
  return with_type(arguments.dtype,
                   [&]<typename T>() { return start_reduction<Extremum<T>>(arguments, stream); });
}

}  // namespace sextant
