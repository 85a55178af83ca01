// Products of 8-bit operands of any extents, element by element: what cuBLASLt does not do.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// y[i, j] = a_scale b_scale sum over l < k of a[i, l] b[j, l], added to what is there or not.
struct ScaledAnyArguments {
  const void* a = nullptr;
  const void* b = nullptr;
  DType a_dtype = DType::kE4M3, b_dtype = DType::kE4M3;
  const float* a_scale = nullptr;
  const float* b_scale = nullptr;
  void* y = nullptr;
  DType y_dtype = DType::kF32;
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulate = false;
};
cudaError_t enqueue_scaled_any(const ScaledAnyArguments& arguments, cudaStream_t stream);

}  // namespace sextant
