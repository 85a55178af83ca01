// Look-up in a table whose rows may be split, and its gradient, callable from C++.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

struct IdArguments {
  const void* ids = nullptr;  // i32 or i64
  bool is_wide = false;
  std::int64_t count = 0;
  std::int64_t first = 0, rows = 0;  // those that the rank has, in the global numbering
};

struct EmbeddingArguments {
  DType dtype = DType::kF32;
  IdArguments ids;
  std::int64_t all_rows = 0;      // ids outside of them set the flag and give zeros
  std::int32_t* fault = nullptr;  // or none
  const void* table = nullptr;
  void* y = nullptr;
  bool adds = false;  // y += instead of y =
  std::int64_t width = 0;
};
cudaError_t enqueue_embedding(const EmbeddingArguments& arguments, cudaStream_t stream);

// Every row of the table is the sum, in the order of the positions, of the rows of dy that looked
// it up.
struct EmbeddingGradArguments {
  DType dtype = DType::kF32;  // of dy
  DType table_dtype = DType::kF32;
  IdArguments ids;  // less than 2^31 of them
  const void* dy = nullptr;
  void* table = nullptr;
  bool adds = false;
  void* scratch = nullptr;  // embedding_grad_scratch(...)
  std::int64_t width = 0;
};
std::size_t embedding_grad_scratch(const IdArguments& ids);
cudaError_t enqueue_embedding_grad(const EmbeddingGradArguments& arguments, cudaStream_t stream);

}  // namespace sextant
