// Elements of every dtype as numbers that arithmetic has, and back: who computes in float or double
// rounds once, when it stores.
#pragma once

#include "core/base/dtype.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

namespace sextant {

// Storage types of the two 16-bit floating formats; arithmetic happens in float or double.
struct BFloat16 {
  std::uint16_t bits = 0;
};
struct Float16 {
  std::uint16_t bits = 0;
};
// And of the two 8-bit ones (core/base/dtype.h).
struct Float8E4M3 {
  std::uint8_t bits = 0;
};
struct Float8E5M2 {
  std::uint8_t bits = 0;
};

// The upper half of a float's bits; here because loops that call it become vectors.
inline float to_float(BFloat16 value) {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}
float to_float(Float16 value);
float to_float(Float8E4M3 value);
float to_float(Float8E5M2 value);
// Round to nearest, ties to even; NaN stays NaN.
BFloat16 to_bfloat16(float value);
Float16 to_float16(float value);
// Round to nearest, ties to even; what lies beyond the largest value, infinity too, becomes that
// one. NaN is 0x7F: what __nv_cvt_float_to_fp8 with __NV_SATFINITE makes (CUDA Math API).
Float8E4M3 to_float8_e4m3(float value);
Float8E5M2 to_float8_e5m2(float value);

// The smallest power of two of which `dtype`, e4m3 or e5m2, holds enough multiples for values up to
// `magnitude`: 2^-126 to 2^126, so that its reciprocal is normal too. Monotone; infinity and NaN
// stay.
float step_of_8_bits(double magnitude, DType dtype);

// Floating formats round to nearest even (those of 16 and 8 bits through float), integers truncate
// and take their nearest value outside their range (0 for NaN), bool is whether the value is not
// zero.
void load_as_double(DType dtype, const std::byte* from, std::span<double> to);
void store_from_double(DType dtype, std::span<const double> from, std::byte* to);

// Calls `visit` with a value-initialised element of the storage type of `dtype`.
template <typename Visitor>
decltype(auto) visit_storage(DType dtype, Visitor&& visit) {
  switch (dtype) {
    case DType::kF64:
      return visit(double{});
    case DType::kF32:
      return visit(float{});
    case DType::kBF16:
      return visit(BFloat16{});
    case DType::kF16:
      return visit(Float16{});
    case DType::kI64:
      return visit(std::int64_t{});
    case DType::kI32:
      return visit(std::int32_t{});
    case DType::kBool:
    case DType::kU8:
      return visit(std::uint8_t{});
    case DType::kE4M3:
      return visit(Float8E4M3{});
    case DType::kE5M2:
      return visit(Float8E5M2{});
  }
  __builtin_unreachable();
}

// Whether arithmetic on elements stored like this happens in float.
template <typename Storage>
inline constexpr bool kIsNarrowFloat =
    std::is_same_v<Storage, BFloat16> || std::is_same_v<Storage, Float16> ||
    std::is_same_v<Storage, Float8E4M3> || std::is_same_v<Storage, Float8E5M2>;

// Arithmetic type of a storage type: itself, or float for the formats of 16 and 8 bits.
template <typename Storage>
auto widen(Storage value) {
  if constexpr (kIsNarrowFloat<Storage>)
    return to_float(value);
  else
    return value;
}

// Monotone over all numbers, infinities included, so that maxima of parts stay maxima.
template <typename Integer, typename Floating>
Integer saturated(Floating value) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  // Both limits are powers of two, or one less and rounded up to one: exact comparisons.
  if (value <= static_cast<Floating>(Limits::lowest())) return Limits::lowest();
  if (value >= static_cast<Floating>(Limits::max())) return Limits::max();
  return static_cast<Integer>(value);
}

template <typename Storage, typename Wide>
Storage narrow(Wide value) {
  if constexpr (std::is_same_v<Storage, BFloat16>)
    return to_bfloat16(static_cast<float>(value));
  else if constexpr (std::is_same_v<Storage, Float16>)
    return to_float16(static_cast<float>(value));
  else if constexpr (std::is_same_v<Storage, Float8E4M3>)
    return to_float8_e4m3(static_cast<float>(value));
  else if constexpr (std::is_same_v<Storage, Float8E5M2>)
    return to_float8_e5m2(static_cast<float>(value));
  else if constexpr (std::is_integral_v<Storage> && std::is_floating_point_v<Wide>)
    return saturated<Storage>(value);
  else
    return static_cast<Storage>(value);
}

}  // namespace sextant
