// Element-wise operations with a value per group of elements: of a row, a channel, a reduction's
// output. Callable from C++.
#pragma once

#include "backends/cuda/kernels/reductions/dim_map.h"
#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// x is an element, s and w are values of its groups, found through the map's two tensors.
enum class GroupedOp {
  kSoftmax,        // exp(x - max_s) / sum_s
  kSoftmaxGrad,    // y (dy - dot_s), x being y
  kExtremumGrad,   // dy_s / count_s where x equals y_s, or both are NaN; else 0
  kNormalize,      // (x - mean_s) rstd_s gamma_w + beta_w
  kNormalizeGrad,  // rstd_s (dy gamma_w - sum_g / count - (x - mean_s) rstd_s^2 sum_gx / count)
};

// A mean, beta or sum_g that is null is 0.
struct GroupedArguments {
  GroupedOp op = GroupedOp::kSoftmax;
  DType dtype = DType::kF32;     // of x, and of the result but for kExtremumGrad
  DType dy_dtype = DType::kF32;  // of dy and the result of kExtremumGrad
  DimMap map;
  const void *x = nullptr, *dy = nullptr;
  const void *max = nullptr, *sum = nullptr;                                       // softmax
  const void* dot = nullptr;                                                       // softmax_grad
  const void *y = nullptr, *count = nullptr;                                       // extremum_grad
  const void *mean = nullptr, *rstd = nullptr, *gamma = nullptr, *beta = nullptr;  // normalize
  const void *sum_g = nullptr, *sum_gx = nullptr;
  double elements_of_group = 1;
  bool has_sums_of_weights = false;  // sum_g is dbeta, sum_gx dgamma
  void* out = nullptr;
  bool adds = false;  // out += instead of out =
};
cudaError_t enqueue_grouped(const GroupedArguments& arguments, cudaStream_t stream);

}  // namespace sextant
