// Looking up by index and the sums that undo it, callable from C++. A shape is seen as [before,
// along, after]; an index that the box of the table does not have gives zeros and takes no
// gradient.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

struct CudaLookup {
  const void* indices = nullptr;
  bool is_wide = false;      // indices are i64, not i32
  bool per_element = false;  // an index per element found, not one for all of a row
  std::int64_t offset = 0;   // of the table's box along its dim
  std::int64_t before = 0, after = 0;
  std::int64_t table_along = 0, found_along = 0;
  // found = table[index]; or table = the sum of what was found.
  const void* from = nullptr;
  void* to = nullptr;
  DType from_type = DType::kF32, to_type = DType::kF32;
  bool accumulate = false;
};
// `from` is the table.
cudaError_t enqueue_take(const CudaLookup& lookup, cudaStream_t stream);
// `to` is the table: sums in the order of the indices, the same in every run.
cudaError_t enqueue_put_sums(const CudaLookup& lookup, cudaStream_t stream);

struct CudaOneHot {
  const void* indices = nullptr;
  bool is_wide = false;
  std::int64_t offset = 0, count = 0, classes = 0;  // local ones
  void* to = nullptr;
  DType type = DType::kF32;
  bool accumulate = false;
};
cudaError_t enqueue_one_hot(const CudaOneHot& one_hot, cudaStream_t stream);

}  // namespace sextant
