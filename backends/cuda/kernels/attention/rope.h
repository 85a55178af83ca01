// Rotary positions, callable from C++.
#pragma once

#include "core/base/dtype.h"
#include "core/operators/layers/rotary.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// x and y [batch, positions, heads, size]: pairs (i, i + size / 2) turned by position / theta^(2 i
// / size), scaled, or back.
struct RopeArguments {
  DType dtype = DType::kF32;
  const void* x = nullptr;
  void* y = nullptr;
  bool accumulate = false;
  bool inverse = false;
  double theta = 1, log2_theta = 0;
  RotaryScaling scaling;
  std::int64_t first = 0;  // position of the first row
  std::int64_t batch = 0, positions = 0, heads = 0, size = 0;
};

// y may be x.
cudaError_t enqueue_rope(const RopeArguments& arguments, cudaStream_t stream);

}  // namespace sextant
