// Layer norm and RMS norm over rows, with an addition before (forward) or after (gradient),
// callable from C++. Weights, x, y and their gradients are of `dtype`, statistics of its
// accumulator type.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
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

// Both in one pass over x and dy, and the sums over the rows of dx as it is written.
struct NormGradientsArguments {
  NormGradInputArguments input;
  void *dgamma = nullptr, *dbeta = nullptr;  // f32, as dx_sum
  void* dx_sum = nullptr;                    // of layer norm; or not wanted
  bool adds_dgamma = false, adds_dbeta = false, adds_dx_sum = false;
  void* scratch = nullptr;  // of the compute queue; holds nothing from launch to launch
  std::size_t scratch_bytes = 0;

  // Kinds of sums over the rows.
  std::int64_t sums() const { return input.is_centred ? (dx_sum != nullptr ? 3 : 2) : 1; }
};
// Whether there is such a kernel: rows of 16-byte packs of up to 16 KiB (with three kinds of sums
// 8), of 32 bits an element or fewer, dx written over what is there, and scratch for the partial
// sums.
bool has_norm_gradients(const NormGradientsArguments& arguments);
// cudaErrorInvalidValue where there is none.
cudaError_t enqueue_norm_gradients(const NormGradientsArguments& arguments, cudaStream_t stream);

}  // namespace sextant
