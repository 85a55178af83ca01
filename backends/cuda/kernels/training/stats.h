// Statistics of many tensors in one go: sums of squares in f64 and counts of numbers that are not
// finite, callable from C++. One launch, sums in a fixed order: the same bits in every run.
#pragma once

#include "backends/cuda/kernels/shared/chunk.h"
#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

struct CudaStatsRow {
  const void* x = nullptr;
  const void* y = nullptr;  // given: {squares of x, squares of y}; else {squares, non-finite} of x
  double* stats = nullptr;
  std::int64_t elements = 0;
  std::int64_t first_chunk = 0, num_chunks = 0, chunk_elements = 0;
  DType type = DType::kF32;  // of x and y
  bool accumulate = false;
  bool is_aligned = false;
};

struct CudaStats {
  const CudaStatsRow* rows = nullptr;
  std::int64_t num_rows = 0;
  const CudaChunk* chunks = nullptr;
  std::int64_t num_chunks = 0;
  double* scratch = nullptr;     // a pair per chunk
  unsigned* finished = nullptr;  // per row, how many of its chunks are; 0 before and after
};
cudaError_t enqueue_stats(const CudaStats& stats, cudaStream_t stream);

// stats = (or +=) the sum of pairs.
struct CudaAddStats {
  const double* const* inputs = nullptr;  // table of addresses
  std::int64_t count = 0;
  double* stats = nullptr;
  bool accumulate = false;
};
cudaError_t enqueue_add_stats(const CudaAddStats& sum, cudaStream_t stream);

}  // namespace sextant
