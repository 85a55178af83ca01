// Matrix products of any types and strides, element by element: what cuBLASLt does not do.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// y[b, i, j] = sum over l < k of x[b, i, l] w[b, l, j]; y is packed, the others lie as the strides
// say, counted in elements.
struct MatmulAnyArguments {
  struct Factor {
    const void* data = nullptr;
    DType dtype = DType::kF32;
    std::int64_t batch_stride = 0, outer_stride = 0, inner_stride = 0;  // inner: along l
  };
  Factor x, w;
  void* y = nullptr;
  DType y_dtype = DType::kF32;
  std::int64_t count = 1, m = 0, n = 0, k = 0;
  bool accumulate = false;
};
cudaError_t enqueue_matmul_any(const MatmulAnyArguments& arguments, cudaStream_t stream);

// to[i] += from[i], rounded once.
struct AddIntoArguments {
  const void* from = nullptr;
  DType from_dtype = DType::kF32;
  void* to = nullptr;
  DType to_dtype = DType::kF32;
  std::int64_t elements = 0;
};
cudaError_t enqueue_add_into(const AddIntoArguments& arguments, cudaStream_t stream);

}  // namespace sextant
