// What stands around the updates: the control of a step, the loss scale, the second half of LAMB.
// Callable from C++.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

struct CudaApplyArguments {
  const void* direction = nullptr;  // of `state_type`
  void* parameter = nullptr;
  DType state_type = DType::kF32;
  const void* norms = nullptr;  // sums of squares of parameter and direction
  const void* rate = nullptr;
  const void* control = nullptr;
  DType norms_type = DType::kF64, rate_type = DType::kF64, control_type = DType::kF64;
  bool adapts = true;
  std::int64_t elements = 0;
};
cudaError_t enqueue_lamb_apply(const CudaApplyArguments& arguments, cudaStream_t stream);

struct CudaControlArguments {
  const void* tokens = nullptr;
  DType token_type = DType::kF32, scale_type = DType::kF32;
  const double* stats = nullptr;  // or none
  const void* scale = nullptr;    // or none: then `constant`
  double constant = 1, limit = 0;
  double* control = nullptr;
  double* norm = nullptr;        // with stats
  double* scale_used = nullptr;  // with scale
  bool adds_control = false, adds_norm = false, adds_scale = false;
};
cudaError_t enqueue_control(const CudaControlArguments& arguments, cudaStream_t stream);

struct CudaLossScaleArguments {
  DType scale_type = DType::kF32, control_type = DType::kF64;
  const void* control = nullptr;
  const double* stats = nullptr;
  void* scale = nullptr;
  std::int64_t* updates = nullptr;
  double growth = 2, backoff = 0.5, minimum = 1;
  std::int64_t interval = 1;
};
cudaError_t enqueue_loss_scale(const CudaLossScaleArguments& arguments, cudaStream_t stream);

}  // namespace sextant
