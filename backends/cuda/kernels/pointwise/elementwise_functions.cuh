// The functions of elementwise.h on wide values: device code per (function, wide type), and what
// the operands of each are.
#pragma once

#include "backends/cuda/kernels/pointwise/activations.cuh"
#include "backends/cuda/kernels/pointwise/arithmetic.cuh"
#include "backends/cuda/kernels/pointwise/elementwise.h"

#include <cfloat>
#include <type_traits>
#include <utility>

namespace sextant {

__host__ __device__ constexpr bool is_comparison(Function f) {
  return f >= Function::kEqual && f <= Function::kGreaterEqual;
}
__host__ __device__ constexpr bool is_logic(Function f) {
  return f >= Function::kLogicalNot && f <= Function::kLogicalOr;
}

__host__ __device__ constexpr int num_inputs(Function f) {
  switch (f) {
    case Function::kWhere:
    case Function::kMaximumGrad:
    case Function::kMinimumGrad:
      return 3;
    case Function::kLogicalAnd:
    case Function::kLogicalOr:
    case Function::kClampGrad:
    case Function::kReluGrad:
    case Function::kTanhGrad:
    case Function::kSigmoidGrad:
    case Function::kGeluGrad:
    case Function::kGeluTanhGrad:
    case Function::kSiluGrad:
      return 2;
    default:
      return is_comparison(f) || (f >= Function::kAdd && f <= Function::kMinimum) ? 2 : 1;
  }
}

// Whether the function takes elements of type T.
template <typename T>
__host__ __device__ constexpr bool takes(Function f) {
  if (f == Function::kWhere) return true;
  if (std::is_same_v<T, Flag>) return is_logic(f);
  if (is_logic(f)) return false;
  return f < Function::kMaximumGrad || !std::is_same_v<Wide<T>, std::int64_t>;
}

template <Function f, typename T, int kInput>
using InputOf = std::conditional_t<f == Function::kWhere && kInput == 0, Flag, T>;
template <Function f, typename T>
using OutputOf = std::conditional_t<is_comparison(f), Flag, T>;

template <typename W>
struct Parameters {
  W a, b;
};

template <Function f, typename W>
__device__ __forceinline__ W any_function(W a, W b, W c) {
  if constexpr (f == Function::kWhere) return a != 0 ? b : c;
  if constexpr (f == Function::kEqual) return a == b;
  if constexpr (f == Function::kNotEqual) return a != b;
  if constexpr (f == Function::kLess) return a < b;
  if constexpr (f == Function::kLessEqual) return a <= b;
  if constexpr (f == Function::kGreater) return a > b;
  if constexpr (f == Function::kGreaterEqual) return a >= b;
  if constexpr (f == Function::kLogicalNot) return a == 0;
  if constexpr (f == Function::kLogicalAnd) return a != 0 && b != 0;
  if constexpr (f == Function::kLogicalOr) return a != 0 || b != 0;
}

// NaN in either operand of a choice gives NaN; of two zeros of unlike sign, a.
template <Function f, typename W>
__device__ __forceinline__ W number_function(W a, W b, const Parameters<W>& x) {
  if constexpr (f == Function::kAdd) return plus(a, b);
  if constexpr (f == Function::kSub) return minus(a, b);
  if constexpr (f == Function::kMul) return times(a, b);
  if constexpr (f == Function::kDiv) return quotient(a, b);
  if constexpr (f == Function::kMaximum) return b != b || b > a ? b : a;
  if constexpr (f == Function::kMinimum) return b != b || b < a ? b : a;
  if constexpr (f == Function::kAbs) {
    if constexpr (std::is_same_v<W, std::int64_t>)
      return a < 0 ? minus(0, a) : a;
    else
      return fabs(a);
  }
  if constexpr (f == Function::kNeg) {
    if constexpr (std::is_same_v<W, std::int64_t>)
      return minus(0, a);
    else
      return -a;
  }
  if constexpr (f == Function::kSign) return a > 0 ? W(1) : a < 0 ? W(-1) : a;
  if constexpr (f == Function::kSquare) return times(a, a);
  if constexpr (f == Function::kRelu) return a > 0 || a != a ? a : W(0);
  if constexpr (f == Function::kAddScalar) return plus(a, x.a);
  if constexpr (f == Function::kClamp) return a < x.a ? x.a : a > x.b ? x.b : a;
}

// Equal operands share the gradient.
template <Function f, typename W>
__device__ __forceinline__ W slope_function(W a, W b, W c, const Parameters<W>& x) {
  if constexpr (f == Function::kMaximumGrad) return a > b ? c : a == b ? c / 2 : W(0);
  if constexpr (f == Function::kMinimumGrad) return a < b ? c : a == b ? c / 2 : W(0);
  if constexpr (f == Function::kClampGrad) return a < x.a || a > x.b ? W(0) : b;
  if constexpr (f == Function::kReluGrad) return a > 0 ? b : W(0);
  if constexpr (f == Function::kTanhGrad) return b * (1 - a * a);
  if constexpr (f == Function::kSigmoidGrad) return b * a * (1 - a);
}

template <Function f, bool kFast, typename W>
__device__ __forceinline__ W curve(W a, W b, const Parameters<W>& x) {
  if constexpr (f == Function::kScale) return x.a * a;
  if constexpr (f == Function::kPow) return pow(a, x.a);
  if constexpr (f == Function::kExp) return exponential<kFast>(a);
  if constexpr (f == Function::kLog) return log(a);
  if constexpr (f == Function::kSqrt) return sqrt(a);
  if constexpr (f == Function::kRsqrt) return 1 / sqrt(a);
  if constexpr (f == Function::kReciprocal) return 1 / a;
  if constexpr (f == Function::kFloor) return floor(a);
  if constexpr (f == Function::kRound) return rint(a);  // ties to even
  if constexpr (f == Function::kTanh) return tanh(a);
  if constexpr (f == Function::kSigmoid) return sigmoid<kFast>(a);
  if constexpr (f == Function::kGelu) return a * normal_cdf(a);
  if constexpr (f == Function::kGeluGrad) return b * gelu_slope<kFast>(a);
  if constexpr (f == Function::kGeluTanh) return gelu_tanh<kFast>(a);
  if constexpr (f == Function::kGeluTanhGrad) return b * gelu_tanh_slope<kFast>(a);
  if constexpr (f == Function::kSilu) return silu<kFast>(a);
  if constexpr (f == Function::kSiluGrad) return b * silu_slope<kFast>(a);
}

template <Function f, bool kFast, typename W>
__device__ __forceinline__ W value_of(W a, W b, W c, const Parameters<W>& x) {
  if constexpr (f < Function::kAdd)
    return any_function<f>(a, b, c);
  else if constexpr (f < Function::kMaximumGrad)
    return number_function<f>(a, b, x);
  else if constexpr (f < Function::kScale || f == Function::kReluGrad || f == Function::kTanhGrad ||
                     f == Function::kSigmoidGrad)
    return slope_function<f>(a, b, c, x);
  else
    return curve<f, kFast>(a, b, x);
}

template <typename W>
Parameters<W> parameters_of(const FunctionArguments& arguments) {
  const auto wide = [](double value) {
    if constexpr (std::is_same_v<W, std::int64_t>)
      return value <= -0x1p63  ? INT64_MIN
             : value >= 0x1p63 ? INT64_MAX
                               : static_cast<std::int64_t>(value);
    else
      return static_cast<W>(value);
  };
  return {wide(arguments.a), wide(arguments.b)};
}

}  // namespace sextant
