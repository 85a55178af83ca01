// Along the lines of one dim: running sums, and the first index of a value. Callable from C++.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// `outer` times `inner` lines. Global indices along the dim; both operands hold a stretch of them.
struct CudaCumsum {
  const void* from = nullptr;
  void* to = nullptr;
  DType type = DType::kF32;
  std::int64_t outer = 0, inner = 0;
  std::int64_t from_offset = 0, from_extent = 0;
  std::int64_t to_offset = 0, to_extent = 0;
  bool reverse = false, exclusive = false, accumulate = false;
};
cudaError_t enqueue_cumsum(const CudaCumsum& cumsum, cudaStream_t stream);

struct CudaFirstIndex {
  const void* x = nullptr;
  const void* value = nullptr;  // one per line
  std::int64_t* index = nullptr;
  DType type = DType::kF32;
  std::int64_t outer = 0, length = 0, inner = 0;
  std::int64_t offset = 0;  // of the box along the dim
  bool accumulate = false;
};
cudaError_t enqueue_first_index(const CudaFirstIndex& first_index, cudaStream_t stream);

}  // namespace sextant
