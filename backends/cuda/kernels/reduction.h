// Reductions over any dims, callable from C++.
#pragma once

#include "backends/cuda/kernels/dim_map.h"
#include "core/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

// Per output, over the elements x that fall to it:
enum class Reduction {
  kSum,         // x
  kMax,         // x; NaN wins
  kMin,         // x; NaN wins
  kSumExp,      // exp(x - a), a of the output
  kSquares,     // (x - a)^2, a of the output or 0
  kDot,         // x b
  kCount,       // 1 where x equals a of the output, or both are NaN
  kGradSums,    // g = dy gamma, and g (x - a), a of the output or 0
  kGradWeight,  // dy (x - mean) rstd, and dy; no mean: 0
};

// Statistics (`a` of kSquares and kGradSums, mean, rstd) are of the accumulator type of x, other
// operands of its type.
struct ReductionArguments {
  Reduction reduction = Reduction::kSum;
  DType dtype = DType::kF32, out_dtype = DType::kF32;
  const void* x = nullptr;
  const void* of_output = nullptr;  // a; none: 0
  const void* b = nullptr;          // of kDot; dy
  // At the second position of the maps: gamma of kGradSums, mean (or none) and rstd of kGradWeight.
  const void *gamma = nullptr, *mean = nullptr, *rstd = nullptr;
  void* out[2] = {};     // kGradSums and kGradWeight have two; one that is null is not wanted
  bool adds[2] = {};     // out += instead of out =
  double divisor = 1;    // of kSum
  DimMap kept, reduced;  // where outputs and the elements of one fall in x
  void* scratch = nullptr;
};
inline constexpr std::size_t kReductionScratchBytes = std::size_t{2} << 20;
cudaError_t enqueue_reduction(const ReductionArguments& arguments, cudaStream_t stream);

// By file: sums, extrema, pieces of norms and softmax.
cudaError_t enqueue_sum(const ReductionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_extremum(const ReductionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_piece(const ReductionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_norm_piece(const ReductionArguments& arguments, cudaStream_t stream);

}  // namespace sextant
