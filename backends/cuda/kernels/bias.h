// Sums over the rows of a matrix: the gradient of a bias.
#pragma once

#include "core/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

struct ReduceToBiasArguments {
  DType dtype = DType::kF32, out_dtype = DType::kF32;  // floating
  const void* dy = nullptr;                            // [rows, columns]
  void* bias = nullptr;                                // [columns]
  void* scratch = nullptr;                             // ColumnSums::kScratchBytes
  bool accumulate = false;
  std::int64_t rows = 0, columns = 0;
  bool aligned = false;  // dy to 16 bytes
};

cudaError_t enqueue_reduce_to_bias(const ReduceToBiasArguments& arguments, cudaStream_t stream);

}  // namespace sextant
