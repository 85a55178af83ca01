// Single numbers of a floating type known only at run time: coefficients, statistics, and operands
// of kernels that are general rather than fast.
#pragma once

#include "backends/cuda/kernels/shared/elements.cuh"

#include <cstdint>

namespace sextant {

template <typename W>
__device__ __forceinline__ W load_number(DType dtype, const void* data, std::int64_t at) {
  switch (dtype) {
    case DType::kF64:
      return static_cast<W>(static_cast<const double*>(data)[at]);
    case DType::kF32:
      return static_cast<W>(static_cast<const float*>(data)[at]);
    case DType::kBF16:
      return static_cast<W>(widen(static_cast<const __nv_bfloat16*>(data)[at]));
    case DType::kF16:
      return static_cast<W>(widen(static_cast<const __half*>(data)[at]));
    default:
      return W(0);
  }
}

template <typename W>
__device__ __forceinline__ void store_number(DType dtype, void* data, std::int64_t at, W value) {
  switch (dtype) {
    case DType::kF64:
      static_cast<double*>(data)[at] = static_cast<double>(value);
      break;
    case DType::kF32:
      static_cast<float*>(data)[at] = static_cast<float>(value);
      break;
    case DType::kBF16:
      static_cast<__nv_bfloat16*>(data)[at] = narrow<__nv_bfloat16>(value);
      break;
    case DType::kF16:
      static_cast<__half*>(data)[at] = narrow<__half>(value);
      break;
    default:
      break;
  }
}

// One rounding, of the sum where the output accumulates.
template <typename W>
__device__ __forceinline__ void put_number(DType dtype, void* data, std::int64_t at, W value,
                                           bool accumulate) {
  store_number(dtype, data, at, accumulate ? load_number<W>(dtype, data, at) + value : value);
}

}  // namespace sextant
