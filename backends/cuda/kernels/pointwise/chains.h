// Fused chains of element-wise operators as one pass, callable from C++.
#pragma once

#include "backends/cuda/kernels/shared/strides.h"
#include "core/base/dtype.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace sextant {

enum class ChainFunction : std::uint8_t {
  kBiasGelu,       // h = a + b; gelu(h), with erf
  kBiasGeluTanh,   // the same in the tanh form
  kSiluMul,        // h = silu(a); h b
  kMulSiluGrad,    // h = a b; h silu'(c)
  kMulMulSiluGrad  // a b; h = a c; h silu'(d)
};

struct ChainArguments {
  ChainFunction function = ChainFunction::kBiasGelu;
  DType dtype = DType::kF32;  // floating, of all operands
  const void* in[4] = {};
  void* out[3] = {};  // of the members in order; nullptr: nobody wants it
  bool accumulate[3] = {};
  std::int64_t elements = 0;
  Strides strides;
  bool is_one_run = false;  // else it falls into packs
};

cudaError_t enqueue_chain(const ChainArguments& arguments, cudaStream_t stream);

// second * (first * x, rounded to `middle`), rounded to `to`: casts and scalings in a row.
struct CastChainArguments {
  DType from = DType::kF32, middle = DType::kF32, to = DType::kF32;  // floating
  double first = 1, second = 1;
  const void* in = nullptr;
  void* out = nullptr;
  bool accumulate = false;
  bool aligned = false;
  std::int64_t elements = 0;
};

cudaError_t enqueue_cast_chain(const CastChainArguments& arguments, cudaStream_t stream);

}  // namespace sextant
