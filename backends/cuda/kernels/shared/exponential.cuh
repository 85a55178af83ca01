// exp in the precision that the type of the operands deserves.
#pragma once

#include "backends/cuda/kernels/shared/elements.cuh"

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

// The same for sums of which another term is 1: of 16-bit types results below 2^-126 are 0, which
// saves three of seven instructions.
template <typename T>
__device__ __forceinline__ Wide<T> coarse_exponential(Wide<T> x) {
  if constexpr (sizeof(T) >= 4) {
    return exponential<T>(x);
  } else {
    constexpr float kLog2E = 1.44269504088896340736f;
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kLog2E));
    return power;
  }
}

}  // namespace sextant
