// Elements of tensors in device code: the C++ type of a dtype, reading and writing them in the type
// that arithmetic uses, 16 bytes at a time, and a switch from a dtype to a template argument.
#pragma once

#include "core/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace sextant {

// f64 is computed in f64, other floating types in f32, integers and bool in i64.
template <typename T>
struct Element {
  using Wide = float;
};
template <>
struct Element<double> {
  using Wide = double;
};
template <>
struct Element<std::int32_t> {
  using Wide = std::int64_t;
};
template <>
struct Element<std::int64_t> {
  using Wide = std::int64_t;
};
template <>
struct Element<bool> {
  using Wide = std::int64_t;
};
template <typename T>
using Wide = typename Element<T>::Wide;

template <typename T>
__device__ __forceinline__ Wide<T> widen(T value) {
  return static_cast<Wide<T>>(value);
}
__device__ __forceinline__ float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ __forceinline__ float widen(__half value) { return __half2float(value); }

// Rounds to nearest even; a value that is not 0 is true.
template <typename T, typename W>
__device__ __forceinline__ T narrow(W value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>)
    return __float2bfloat16(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, __half>)
    return __float2half(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, bool>)
    return value != W(0);
  else
    return static_cast<T>(value);
}

// As many elements as one 16-byte access holds.
template <typename T>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / sizeof(T);
  T values[kSize];
};

// Calls `use.template operator()<T>()` with the type of `dtype`.
template <typename Use>
cudaError_t with_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kF64:
      return use.template operator()<double>();
    case DType::kF32:
      return use.template operator()<float>();
    case DType::kBF16:
      return use.template operator()<__nv_bfloat16>();
    case DType::kF16:
      return use.template operator()<__half>();
    case DType::kI64:
      return use.template operator()<std::int64_t>();
    case DType::kI32:
      return use.template operator()<std::int32_t>();
    case DType::kBool:
      return use.template operator()<bool>();
  }
  return cudaErrorInvalidValue;
}

// The same for floating types; cudaErrorInvalidValue for others.
template <typename Use>
cudaError_t with_floating_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kF64:
      return use.template operator()<double>();
    case DType::kF32:
      return use.template operator()<float>();
    case DType::kBF16:
      return use.template operator()<__nv_bfloat16>();
    case DType::kF16:
      return use.template operator()<__half>();
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace sextant
