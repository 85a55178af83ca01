// Elements of tensors in device code: the C++ type of a dtype, reading and writing them in the type
// that arithmetic uses, 16 bytes at a time, and a switch from a dtype to a template argument.
#pragma once

#include "core/base/dtype.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

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

// `kSize` elements, a power of two, that one access of up to 16 bytes holds, or several.
template <typename T, int kSize>
struct alignas(sizeof(T) * kSize < 16 ? sizeof(T) * kSize : 16) Values {
  T values[kSize];
};

// A pack as 32-bit words. What is loaded ahead of its use is held like this: as 16-bit values it
// would be taken apart, and so waited for, as soon as the load is issued.
template <typename T>
__device__ __forceinline__ void unpack(uint4 words, float (&values)[Pack<T>::kSize]) {
  const std::uint32_t of[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      values[2 * i] = __uint_as_float(of[i] << 16);
      values[2 * i + 1] = __uint_as_float(of[i] & 0xFFFF0000u);
    } else if constexpr (std::is_same_v<T, __half>) {
      __half2 both;
      memcpy(&both, &of[i], sizeof(both));
      values[2 * i] = __low2float(both);
      values[2 * i + 1] = __high2float(both);
    } else {
      static_assert(std::is_same_v<T, float>);
      values[i] = __uint_as_float(of[i]);
    }
  }
}

// Rounds to nearest even.
template <typename T>
__device__ __forceinline__ uint4 to_pack(const float (&values)[Pack<T>::kSize]) {
  std::uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      const __nv_bfloat162 both = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
      memcpy(&words[i], &both, sizeof(both));
    } else if constexpr (std::is_same_v<T, __half>) {
      const __half2 both = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
      memcpy(&words[i], &both, sizeof(both));
    } else {
      static_assert(std::is_same_v<T, float>);
      words[i] = __float_as_uint(values[i]);
    }
  }
  return {words[0], words[1], words[2], words[3]};
}

// Calls `use.template operator()<T>()` with the type of `dtype`; cudaErrorInvalidValue where it is
// not floating.
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

// The same for all types.
template <typename Use>
cudaError_t with_type(DType dtype, const Use& use) {
  switch (dtype) {
    case DType::kI64:
      return use.template operator()<std::int64_t>();
    case DType::kI32:
      return use.template operator()<std::int32_t>();
    case DType::kBool:
      return use.template operator()<bool>();
    default:
      return with_floating_type(dtype, use);
  }
}

}  // namespace sextant
