// Scales of tensors, and tensors in 8 bits, row by row and column by column.
#pragma once

#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

// What blocks of one launch leave for its last one: zeros when the launch begins and when it is
// over.
struct QuantizeTally {
  unsigned long long largest = 0;  // bits of the largest magnitude
  unsigned arrived = 0;
};

// scale[0] = the smallest power of two of which `to` holds multiples up to the largest magnitude
// (core/base/elements.h, step_of_8_bits). Maxima depend on no order.
struct QuantizeScaleArguments {
  const void* x = nullptr;
  DType from = DType::kF32;
  DType to = DType::kE4M3;
  std::int64_t elements = 0;
  float* scale = nullptr;
  bool accumulate = false;         // added to what is there
  QuantizeTally* tally = nullptr;  // on the device
};
cudaError_t enqueue_quantize_scale(const QuantizeScaleArguments& arguments, cudaStream_t stream);

// rows[i, j] = columns[j, i] = x[i, j] / scale[0]; either may be nothing.
struct QuantizeArguments {
  const void* x = nullptr;
  const float* scale = nullptr;
  void* rows = nullptr;
  void* columns = nullptr;
  DType from = DType::kF32;
  DType to = DType::kE4M3;
  std::int64_t m = 0, n = 0;
};
cudaError_t enqueue_quantize(const QuantizeArguments& arguments, cudaStream_t stream);

}  // namespace sextant
