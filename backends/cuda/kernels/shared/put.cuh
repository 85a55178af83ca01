// Writing results: over what is there or added to it, in a type known when compiling or only when
// running.
#pragma once

#include "backends/cuda/kernels/shared/elements.cuh"

#include <type_traits>

namespace sextant {

// Integers wrap around.
template <typename A, typename B>
__device__ __forceinline__ auto sum_of(A a, B b) {
  if constexpr (std::is_same_v<A, std::int64_t> && std::is_same_v<B, std::int64_t>)
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}

template <typename T, typename W>
__device__ __forceinline__ void put(T* out, bool adds, W value) {
  *out = adds ? narrow<T>(sum_of(widen(*out), value)) : narrow<T>(value);
}

// Element `at` of an `out` of type `dtype`.
template <typename W>
__device__ __forceinline__ void put_as(DType dtype, void* out, std::int64_t at, bool adds,
                                       W value) {
  switch (dtype) {
    case DType::kF64:
      return put(static_cast<double*>(out) + at, adds, value);
    case DType::kF32:
      return put(static_cast<float*>(out) + at, adds, value);
    case DType::kBF16:
      return put(static_cast<__nv_bfloat16*>(out) + at, adds, value);
    case DType::kF16:
      return put(static_cast<__half*>(out) + at, adds, value);
    case DType::kI64:
      return put(static_cast<std::int64_t*>(out) + at, adds, value);
    case DType::kI32:
      return put(static_cast<std::int32_t*>(out) + at, adds, value);
    case DType::kBool:
      return put(static_cast<bool*>(out) + at, adds, value);
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      break;  // quantize and loaders write them and nobody else
  }
}

}  // namespace sextant
