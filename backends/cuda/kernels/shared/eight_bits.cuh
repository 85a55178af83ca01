// Elements of 8 bits in device code.
#pragma once

#include "core/base/dtype.h"

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

namespace sextant {

__host__ __device__ constexpr bool is_8_bits(DType dtype) {
  return dtype == DType::kE4M3 || dtype == DType::kE5M2;
}

__host__ __device__ constexpr __nv_fp8_interpretation_t interpretation_of(DType dtype) {
  return dtype == DType::kE4M3 ? __NV_E4M3 : __NV_E5M2;
}

// Round to nearest even; the largest value where that is beyond it.
__device__ __forceinline__ std::uint8_t to_8_bits(DType dtype, float value) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, interpretation_of(dtype));
}

// Two at a time, the first in the lower byte.
template <DType kTo>
__device__ __forceinline__ std::uint32_t pair_of_8_bits(float first, float second) {
  return __nv_cvt_float2_to_fp8x2(make_float2(first, second), __NV_SATFINITE,
                                  interpretation_of(kTo));
}

__device__ __forceinline__ float from_8_bits(DType dtype, std::uint8_t bits) {
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, interpretation_of(dtype))));
}

}  // namespace sextant
