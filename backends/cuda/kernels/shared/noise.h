// Numbers between -1 and 1 that look random, for measurements.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

struct NoiseArguments {
  void* data = nullptr;
  DType dtype = DType::kF32;  // floating
  std::int64_t elements = 0;
};
cudaError_t enqueue_noise(const NoiseArguments& arguments, cudaStream_t stream);

}  // namespace sextant
