// The reduction of what several members hold, in the order of a ring, in one pass: callable from
// C++.
#pragma once

#include "core/base/dtype.h"
#include "core/tensors/sbp.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

inline constexpr int kMostRingMembers = 64;

struct CudaRingReduce {
  const void* from[kMostRingMembers] = {};  // by position in the group
  int members = 0;
  void* to = nullptr;  // shares no byte with any input
  std::int64_t elements = 0;
  // The member at which the ring of every element ends: it starts behind it. -1: that of balanced
  // part c ends at member c.
  int owner = -1;
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
};
// cudaErrorInvalidValue for more members than there is room for.
cudaError_t enqueue_ring_reduce(const CudaRingReduce& reduce, cudaStream_t stream);

}  // namespace sextant
