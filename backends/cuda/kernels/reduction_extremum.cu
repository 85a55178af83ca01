// Maxima and minima over any dims (reduction.cuh).
#include "backends/cuda/kernels/reduction.cuh"

namespace sextant {
namespace {

// What an extremum over nothing is: of the lowest or the highest value of the type.
template <typename T>
__device__ Wide<T> lowest_of() {
  if constexpr (std::is_same_v<T, bool>)
    return 0;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return INT32_MIN;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return INT64_MIN;
  else
    return -static_cast<Wide<T>>(INFINITY);
}
template <typename T>
__device__ Wide<T> highest_of() {
  if constexpr (std::is_same_v<T, bool>)
    return 1;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return INT32_MAX;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return INT64_MAX;
  else
    return static_cast<Wide<T>>(INFINITY);
}

template <typename T, typename Combine>
struct Extremum : ReductionOp<T> {
  using W = Wide<T>;
  using ReductionOp<T>::ReductionOp;
  __device__ W neutral() const {
    if constexpr (std::is_same_v<Combine, Larger>)
      return lowest_of<T>();
    else
      return highest_of<T>();
  }
  __device__ W combine(W a, W b) const { return Combine()(a, b); }
  __device__ void add(W (&sums)[1], W x, W, W, std::int64_t) const {
    sums[0] = Combine()(sums[0], x);
  }
};

}  // namespace

cudaError_t enqueue_extremum(const ReductionArguments& arguments, cudaStream_t stream) {
  return with_type(arguments.dtype, [&]<typename T>() {
    if (arguments.reduction == Reduction::kMax)
      return start_reduction<Extremum<T, Larger>>(arguments, stream);
    return start_reduction<Extremum<T, Smaller>>(arguments, stream);
  });
}

}  // namespace sextant
