// Element-wise kernels on contiguous f32, callable from C++.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

enum class ElementwiseOp { kAdd, kMul, kScale, kGelu, kGeluTanh, kSilu };

struct ElementwiseArguments {
  ElementwiseOp op = ElementwiseOp::kAdd;
  const float* a = nullptr;
  const float* b = nullptr;  // of kAdd and kMul
  float* out = nullptr;
  float factor = 1;         // of kScale
  bool accumulate = false;  // out += instead of out =
  std::int64_t elements = 0;
};

cudaError_t enqueue_elementwise(const ElementwiseArguments& arguments, cudaStream_t stream);

}  // namespace sextant
