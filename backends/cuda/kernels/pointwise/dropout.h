// [x + bias ->] dropout [-> + residual], callable from C++.
#pragma once

#include "backends/cuda/kernels/shared/strides.h"
#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// Which act draws, with the number of the step in device memory.
struct DropoutMask {
  std::uint64_t seed = 0, stream = 0;
  std::int64_t layer = 0, micro_batch = 0;
  const std::int64_t* step = nullptr;
  // An element is kept where its 64 bits are at least this; none is where nothing is kept.
  std::uint64_t least = 0;
  bool keeps_any = true;
  std::int64_t first_index = 0;  // of the first element, in the global tensor
};

struct DropoutArguments {
  static constexpr int kX = 0, kBias = 1, kResidual = 2, kIndex = 3;  // rows of the strides
  DType dtype = DType::kF32;                                          // floating
  const void* in[3] = {};  // kX, kBias, kResidual; nullptr: without
  // x + bias, what is kept of it, that and the residual; nullptr: nobody wants it.
  void* out[3] = {};
  bool accumulate[3] = {};
  double scale = 1;  // of what is kept
  DropoutMask mask;
  std::int64_t elements = 0;
  Strides strides;
  // Packs of 16 bytes, whose elements have indices below 2^32 in the global tensor.
  bool falls_into_packs = false;
  // Besides, every operand and the indices run on as the output does.
  bool is_one_run = false;
};

cudaError_t enqueue_dropout(const DropoutArguments& arguments, cudaStream_t stream);

}  // namespace sextant
