// Layer norm and RMS norm over rows, with an addition before (forward) or after (gradient),
// callable from C++. Weights, x, y and their gradients are of `dtype`, statistics of its
// accumulator type.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// y = (s - mean) rstd gamma + beta with s = x + other, rounded to `dtype`.
struct NormArguments {
  DType dtype = DType::kF32;
  bool is_centred = true;  // without: RMS norm, no mean and no beta
  const void *x = nullptr, *gamma = nullptr, *beta = nullptr;
  const void* other = nullptr;  // or none: s = x
  void* sum = nullptr;          // s, or not wanted
  void *y = nullptr, *mean = nullptr, *rstd = nullptr;
  bool adds_y = false, adds_mean = false, adds_rstd = false;  // out += instead of out =
  double epsilon = 0;
  std::int64_t rows = 0, length = 0;
  bool in_company = false;  // a collective may have some of the card's processors
};
cudaError_t enqueue_norm(const NormArguments& arguments, cudaStream_t stream);

// dx = rstd (g - average of g - h x average of g h), g = dy gamma, h = (x - mean) rstd; + other.
struct NormGradInputArguments {
  DType dtype = DType::kF32;
  bool is_centred = true;
  const void *x = nullptr, *gamma = nullptr, *mean = nullptr, *rstd = nullptr, *dy = nullptr;
  const void* other = nullptr;  // or none
  void* dx = nullptr;
  bool adds_dx = false;
  std::int64_t rows = 0, length = 0;
  bool in_company = false;
};
cudaError_t enqueue_norm_grad_input(const NormGradInputArguments& arguments, cudaStream_t stream);

// Sums over the rows of dy h and of dy.
struct NormGradWeightArguments {
  DType dtype = DType::kF32;
  bool is_centred = true;
  const void *x = nullptr, *mean = nullptr, *rstd = nullptr, *dy = nullptr;
  void *dgamma = nullptr, *dbeta = nullptr;
  bool adds_dgamma = false, adds_dbeta = false;
  void* scratch = nullptr;  // of column_sums.cuh, as `finished`
  std::uint32_t* finished = nullptr;
  std::int64_t rows = 0, length = 0;
  std::int64_t pack = 1;  // columns of a lane: 16 bytes where x, dy and their rows are aligned
};
cudaError_t enqueue_norm_grad_weight(const NormGradWeightArguments& arguments, cudaStream_t stream);

}  // namespace sextant
