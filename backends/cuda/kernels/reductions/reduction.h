// Reductions over any dims, callable from C++.
#pragma once

#include "backends/cuda/kernels/reductions/dim_map.h"
#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sextant {

// Per output, over the elements x that fall to it:
enum class Reduction {
  kSum,       // x
  kMax,       // x; NaN wins
  kSumExp,    // exp(x - a), a of the output
  kSquares,   // (x - a)^2, a of the output or 0
  kCount,     // 1 where x equals a of the output, or both are NaN
  kProducts,  // g = b gamma, and g (x - a - mean) rstd; a of the output
};

// Statistics (`a` of kSquares and kProducts, mean, rstd) are of the accumulator type of x, other
// operands of its type.
struct ReductionArguments {
  Reduction reduction = Reduction::kSum;
  DType dtype = DType::kF32, out_dtype = DType::kF32;
  const void* x = nullptr;
  const void* of_output = nullptr;  // a; none: 0
  const void* b = nullptr;          // of kProducts
  // At the second position of the maps, of kProducts; none: 1, 0, 1.
  const void *gamma = nullptr, *mean = nullptr, *rstd = nullptr;
  void* out[2] = {};         // kProducts has two; one that is null is not wanted
  bool adds[2] = {};         // out += instead of out =
  double divisor = 1;        // of floating results
  bool is_opposite = false;  // of kMax: the minimum instead
  DimMap kept, reduced;      // where outputs and the elements of one fall in x
  void* scratch = nullptr;
};
inline constexpr std::size_t kReductionScratchBytes = std::size_t{2} << 20;
cudaError_t enqueue_reduction(const ReductionArguments& arguments, cudaStream_t stream);

// By file.
cudaError_t enqueue_sum(const ReductionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_extremum(const ReductionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_piece(const ReductionArguments& arguments, cudaStream_t stream);
cudaError_t enqueue_products(const ReductionArguments& arguments, cudaStream_t stream);

// What becomes of what a kernel has reduced.
struct ReductionResult {
  void* out[2] = {};
  bool adds[2] = {};
  DType dtype = DType::kF32;
  double divisor = 1;
  bool is_opposite = false;
};

// Of outputs that several blocks have a part of: [split][sum][output], in the accumulator type.
struct ReductionSplits {
  ReductionResult result;
  DType dtype = DType::kF32;  // of the elements
  int sums = 1;
  bool is_extremum = false;
  std::int64_t outputs = 0, splits = 1;
  const void* partial = nullptr;
};
cudaError_t enqueue_combine_splits(const ReductionSplits& splits, cudaStream_t stream);

}  // namespace sextant
