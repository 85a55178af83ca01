// A statistic carried from step to step, callable from C++.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// kept += momentum (sum / count - kept) where the count is not 0. All f32 or all f64.
struct RunningStatisticArguments {
  DType dtype = DType::kF32;
  const void *sum = nullptr, *count = nullptr;
  void* kept = nullptr;
  double momentum = 0;
  std::int64_t elements = 0;
};
cudaError_t enqueue_running_statistic(const RunningStatisticArguments& arguments,
                                      cudaStream_t stream);

}  // namespace sextant
