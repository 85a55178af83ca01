// exp in the precision that the type of the operands deserves.
#pragma once

#include "backends/cuda/kernels/elements.cuh"

namespace sextant {

// For 16-bit types the fast one: its error, 2 + |x| units of 2^-24, is far below their rounding.
template <typename T>
__device__ __forceinline__ Wide<T> exponential(Wide<T> x) {
  if constexpr (sizeof(T) == 8)
    return exp(x);
  else if constexpr (sizeof(T) == 4)
    return expf(x);
  else
    return __expf(x);
}

}  // namespace sextant
