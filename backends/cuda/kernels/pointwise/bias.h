// Sums over the rows of a matrix, or of several of one size: the gradients of biases.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

struct ReduceToBiasArguments {
  DType dtype = DType::kF32, out_dtype = DType::kF32;  // floating
  const void* dy = nullptr;                            // [rows, columns]
  void* bias = nullptr;                                // [columns]
  // Of several matrices instead: arrays of pointers on the device.
  const void* const* all_dy = nullptr;
  void* const* all_bias = nullptr;
  std::int64_t matrices = 1;
  void* scratch = nullptr;  // of column_sums.cuh, as `finished`
  std::uint32_t* finished = nullptr;
  bool accumulate = false;
  std::int64_t rows = 0, columns = 0;
  std::int64_t pack = 1;  // columns of a lane: 16 bytes where dy and its rows are aligned
};

cudaError_t enqueue_reduce_to_bias(const ReduceToBiasArguments& arguments, cudaStream_t stream);

}  // namespace sextant
