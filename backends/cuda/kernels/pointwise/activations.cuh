// Activation functions in f32 and f64. `kFast`: with the exponential and division of the special
// function units, good to about 2^-20, for elements of 16 bits.
#pragma once

namespace sextant {

template <bool kFast>
__device__ __forceinline__ float exponential(float x) {
  return kFast ? __expf(x) : expf(x);
}
template <bool kFast>
__device__ __forceinline__ double exponential(double x) {
  return exp(x);
}

// No exponential overflows, so small results keep their digits.
template <bool kFast, typename W>
__device__ __forceinline__ W sigmoid(W x) {
  const W e = exponential<kFast>(x < 0 ? x : -x);
  const W numerator = x < 0 ? e : W(1);
  if constexpr (kFast)
    return __fdividef(numerator, 1 + e);
  else
    return numerator / (1 + e);
}

template <bool kFast, typename W>
__device__ __forceinline__ W silu(W x) {
  return x * sigmoid<kFast>(x);
}

template <bool kFast, typename W>
__device__ __forceinline__ W silu_slope(W x) {
  const W s = sigmoid<kFast>(x);
  return s * (1 + x * (1 - s));
}

__device__ __forceinline__ float normal_cdf(float x) { return normcdff(x); }
__device__ __forceinline__ double normal_cdf(double x) { return normcdf(x); }

template <bool kFast, typename W>
__device__ __forceinline__ W gelu_slope(W x) {
  constexpr W kPeak = W(0.39894228040143267794);  // 1 / sqrt(2 pi)
  return normal_cdf(x) + x * (kPeak * exponential<kFast>(W(-0.5) * x * x));
}

// (1 + tanh(u)) / 2 = sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3).
template <typename W>
__device__ __forceinline__ W twice_gelu_argument(W x) {
  return W(1.59576912160573071176) * (x + W(0.044715) * x * x * x);
}

template <bool kFast, typename W>
__device__ __forceinline__ W gelu_tanh(W x) {
  return x * sigmoid<kFast>(twice_gelu_argument(x));
}

// s + x s (1 - s) (2 u)'. Where s is 0 or 1 the second term is 0 although (2 u)' may be infinite;
// NaN for infinite x.
template <bool kFast, typename W>
__device__ __forceinline__ W gelu_tanh_slope(W x) {
  const W s = sigmoid<kFast>(twice_gelu_argument(x));
  const W bend = s * (1 - s);
  const W slope = W(1.59576912160573071176) * (1 + W(0.134145) * x * x);
  return s + x * bend * (bend == 0 ? W(0) : slope);
}

}  // namespace sextant
