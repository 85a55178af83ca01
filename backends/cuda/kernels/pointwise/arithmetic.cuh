// Arithmetic of element-wise kernels in the wide type of an element (elements.cuh), with the
// results of the CPU's reference: integers saturate instead of wrapping around, NaN stays NaN.
#pragma once

#include "backends/cuda/kernels/shared/elements.cuh"

#include <cstdint>
#include <type_traits>

namespace sextant {

// An element of dtype bool: a byte that is not zero is true, whichever it is.
struct Flag {
  std::uint8_t byte;
};
template <>
struct Element<Flag> {
  using Wide = std::int64_t;
};
__device__ __forceinline__ std::int64_t widen(Flag value) { return value.byte != 0; }

inline constexpr std::int64_t kHighest = INT64_MAX, kLowest = INT64_MIN;

template <typename Integer>
__device__ __forceinline__ Integer saturated(std::int64_t value) {
  if constexpr (sizeof(Integer) == 4)
    return static_cast<Integer>(value < INT32_MIN   ? INT32_MIN
                                : value > INT32_MAX ? INT32_MAX
                                                    : value);
  else
    return value;
}

// Towards zero; 0 for NaN.
__device__ __forceinline__ std::int64_t truncated(double value) {
  if (value != value) return 0;
  if (value <= -0x1p63) return kLowest;
  if (value >= 0x1p63) return kHighest;
  return static_cast<std::int64_t>(value);
}

// The element that a wide value is stored as. Integers reach 16 and 32 bits through double, as on
// the CPU, f64 reaches 16 bits through f32.
template <typename T, typename W>
__device__ __forceinline__ T stored(W value) {
  constexpr bool kToInteger = std::is_same_v<Wide<T>, std::int64_t>;
  constexpr bool kFromInteger = std::is_same_v<W, std::int64_t>;
  if constexpr (std::is_same_v<T, Flag>)
    return Flag{static_cast<std::uint8_t>(value != W(0))};
  else if constexpr (kToInteger && kFromInteger)
    return saturated<T>(value);
  else if constexpr (kToInteger)
    return saturated<T>(truncated(static_cast<double>(value)));
  else if constexpr (kFromInteger)
    return narrow<T>(static_cast<double>(value));
  else
    return narrow<T>(value);
}

__device__ __forceinline__ float plus(float a, float b) { return a + b; }
__device__ __forceinline__ double plus(double a, double b) { return a + b; }
__device__ __forceinline__ std::int64_t plus(std::int64_t a, std::int64_t b) {
  const auto sum =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  const bool overflows = ((a ^ sum) & (b ^ sum)) < 0;
  return !overflows ? sum : a < 0 ? kLowest : kHighest;
}

__device__ __forceinline__ float minus(float a, float b) { return a - b; }
__device__ __forceinline__ double minus(double a, double b) { return a - b; }
__device__ __forceinline__ std::int64_t minus(std::int64_t a, std::int64_t b) {
  const auto difference =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  const bool overflows = ((a ^ b) & (a ^ difference)) < 0;
  return !overflows ? difference : a < 0 ? kLowest : kHighest;
}

__device__ __forceinline__ float times(float a, float b) { return a * b; }
__device__ __forceinline__ double times(double a, double b) { return a * b; }
__device__ __forceinline__ std::int64_t times(std::int64_t a, std::int64_t b) {
  const auto low =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  const bool overflows = __mul64hi(a, b) != (low >> 63);
  return !overflows ? low : (a < 0) != (b < 0) ? kLowest : kHighest;
}

__device__ __forceinline__ float quotient(float a, float b) { return a / b; }
__device__ __forceinline__ double quotient(double a, double b) { return a / b; }
// Towards zero; of a division by zero the end of the range, 0 for 0 / 0.
__device__ __forceinline__ std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0) return a > 0 ? kHighest : a < 0 ? kLowest : 0;
  return b == -1 ? minus(0, a) : a / b;
}

// An element with a value added to it, as over micro-batches: numbers of integer types wrap around,
// as sums between devices do, so that no sum depends on its order.
template <typename T, typename W>
__device__ __forceinline__ T added(T present, W value) {
  if constexpr (std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>)
    return static_cast<T>(static_cast<std::uint64_t>(widen(present)) +
                          static_cast<std::uint64_t>(widen(stored<T>(value))));
  else
    return stored<T>(plus(static_cast<W>(widen(present)), value));
}

}  // namespace sextant
