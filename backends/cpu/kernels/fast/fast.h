// What fast kernels are made of: typed views, conditions, sums in lanes that the compiler turns
// into vectors, and an exponential without a call. Order of summation is fixed by the code, so
// results do not depend on timing.
#pragma once

#include "backends/cpu/kernels/fast/clones.h"
#include "backends/cpu/kernels/shared/kernel.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sextant {

template <typename T>
const T* input(const KernelContext& context, std::size_t index) {
  return reinterpret_cast<const T*>(context.in[index].data);
}
template <typename T>
T* output(const KernelContext& context, std::size_t index) {
  return reinterpret_cast<T*>(context.out[index].data);
}

inline std::int64_t elements(const KernelOperand& operand) {
  return operand.local.shape.elements();
}

// Every floating operand is `dtype`.
bool floats_are(const KernelContext& context, DType dtype);
bool accumulates_none(const KernelContext& context);
// The usual conditions: all floating operands f32; and no output accumulates.
bool is_f32(const KernelContext& context);
bool overwrites_f32(const KernelContext& context);

inline constexpr std::size_t kLanes = 16;

// sum over i < n of term(i), in kLanes partial sums that are added pairwise: one order, whatever
// the vectors are.
template <typename Sum = float, typename Term>
SEXTANT_INLINE Sum lane_sum(std::int64_t n, const Term& term) {
  std::array<Sum, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kLanes) <= n; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      lanes[lane] += term(i + static_cast<std::int64_t>(lane));
  for (std::size_t lane = 0; i < n; ++i, ++lane) lanes[lane] += term(i);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2)
    for (std::size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  return lanes[0];
}

// The largest of n values; NaN is passed over.
SEXTANT_INLINE float lane_max(const float* x, std::int64_t n) {
  // A vector by name: of sixteen maxima side by side a compiler makes sixteen jumps.
  using Lanes = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  Lanes lanes = Lanes{} + kLowest;
  std::int64_t i = 0;
  for (; i + static_cast<std::int64_t>(kLanes) <= n; i += kLanes) {
    const Lanes values = *reinterpret_cast<const Lanes*>(x + i);
    lanes = lanes < values ? values : lanes;
  }
  float largest = kLowest;
  for (std::size_t lane = 0; lane < kLanes; ++lane) largest = std::max(largest, lanes[lane]);
  for (; i < n; ++i) largest = std::max(largest, x[i]);
  return largest;
}

// e^x to about one unit in the last place: 2^n e^r with |r| <= ln(2) / 2, e^r by its Taylor
// polynomial of degree 7 (remainder below 6e-9). Below the smallest normal number: 0.
SEXTANT_INLINE float fast_exp(float x) {
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F, kLn2Low = -2.12194440e-4F;
  constexpr float kRoundToInteger = 12582912.0F;  // 1.5 * 2^23
  const float clamped = std::min(std::max(x, -87.0F), 88.0F);
  const float n = (clamped * kLog2E + kRoundToInteger) - kRoundToInteger;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto power = static_cast<std::uint32_t>((static_cast<std::int32_t>(n) + 127) << 23);
  const float result = p * std::bit_cast<float>(power);
  return x < -87.0F ? 0.0F : result;
}

// tanh(x) = 1 - 2 / (e^2x + 1); absolute error about 1e-7, which is what 1 + tanh needs.
SEXTANT_INLINE float fast_tanh(float x) { return 1.0F - 2.0F / (fast_exp(2.0F * x) + 1.0F); }

SEXTANT_INLINE float fast_sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

}  // namespace sextant
