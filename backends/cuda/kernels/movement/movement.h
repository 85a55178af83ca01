// Moving elements between boxes of memory, callable from C++. A move visits every index of a box
// and knows how far a step along each dim goes on both sides: cutting, joining, transposing,
// repeating (a stride of 0) are all moves. Only the size of an element matters, except where it is
// added.
#pragma once

#include "backends/cuda/kernels/shared/divisor.h"
#include "core/base/dtype.h"
#include "core/tensors/sbp.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

// As many as a shape has.
inline constexpr int kMostDims = 16;

struct CudaDim {
  std::int64_t extent = 1, from = 0, to = 0;  // strides in elements
  Divisor divisor;                            // by the extent, where `is_small`
};

struct CudaMove {
  const void* from = nullptr;
  void* to = nullptr;
  int element_bytes = 4;  // 1, 2, 4, 8 or 16
  int rank = 0;
  CudaDim dims[kMostDims];  // the last varies fastest
  std::int64_t elements = 0;
  bool is_small = false;  // fewer than 2^31 elements
  // Tiled through shared memory: steps of 1 in `to` are steps along the last dim, steps of 1 in
  // `from` along this one. -1: not tiled.
  int tiled_dim = -1;
  // Not 0: all of an element of `to`, of 16 bytes, is one of `from`, of so many, again and again.
  int repeated_bytes = 0;
  // Instead of moving: to = to (op) from in this type.
  bool adds = false;
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
};
cudaError_t enqueue_move(const CudaMove& move, cudaStream_t stream);

// Every element becomes the same; `pattern` is one element, repeated to eight bytes.
struct CudaFill {
  void* to = nullptr;
  std::int64_t bytes = 0;
  std::uint64_t pattern = 0;
};
cudaError_t enqueue_fill(const CudaFill& fill, cudaStream_t stream);

}  // namespace sextant
