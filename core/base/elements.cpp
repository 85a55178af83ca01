// Conversions between storage and arithmetic types, written on the bits so that they are the same
// on every host.
#include "core/base/elements.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace sextant {
namespace {

constexpr std::uint32_t kSign = 0x80000000;

std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }
float float_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// `bits` without its lowest `dropped` bits, rounded to nearest even.
std::uint32_t round_bits(std::uint32_t bits, int dropped) {
  const std::uint32_t half = (std::uint32_t{1} << (dropped - 1)) - 1;
  return (bits + half + ((bits >> dropped) & 1)) >> dropped;
}

constexpr std::uint8_t kNanOf8Bits = 0x7F;

// A floating format of 8 bits: exponents from 1 - bias on, below that multiples of the smallest.
struct EightBitFormat {
  int fraction_bits, bias;
  float largest, steps_in_one;  // the steps of subnormal values
  std::uint8_t largest_bits;
};
constexpr EightBitFormat kE4M3Format{3, 7, 448.0F, 0x1p9F, 0x7E},
    kE5M2Format{2, 15, 57344.0F, 0x1p16F, 0x7B};

std::uint8_t to_8_bits(float value, const EightBitFormat& format) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t magnitude = bits & ~kSign;
  if (magnitude > 0x7F800000) return kNanOf8Bits;
  const auto sign = static_cast<std::uint8_t>((bits & kSign) >> 24);
  if (float_of(magnitude) >= format.largest) return sign | format.largest_bits;
  const int dropped = 23 - format.fraction_bits;
  const auto smallest_exponent =
      static_cast<std::uint32_t>(128 - format.bias);  // as floats have it
  if (magnitude < smallest_exponent << 23) {
    // Subnormal: the default rounding of nearbyint is to nearest even.
    const float steps = float_of(magnitude) * format.steps_in_one;
    return sign | static_cast<std::uint8_t>(std::nearbyint(steps));
  }
  return sign | static_cast<std::uint8_t>(
                    round_bits(magnitude - ((smallest_exponent - 1) << 23), dropped));
}

}  // namespace

Float8E4M3 to_float8_e4m3(float value) { return {to_8_bits(value, kE4M3Format)}; }
Float8E5M2 to_float8_e5m2(float value) { return {to_8_bits(value, kE5M2Format)}; }

BFloat16 to_bfloat16(float value) {
  const std::uint32_t bits = bits_of(value);
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>(round_bits(bits, 16))};
}

float to_float(Float16 value) {
  const std::uint32_t sign = (std::uint32_t{value.bits} << 16) & kSign;
  const std::uint32_t exponent = (value.bits >> 10) & 0x1F;
  const std::uint32_t fraction = value.bits & 0x3FF;
  if (exponent == 0x1F) return float_of(sign | 0x7F800000 | (fraction << 13));
  if (exponent != 0) return float_of(sign | ((exponent + 112) << 23) | (fraction << 13));
  const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;  // subnormal
  return float_of(sign | bits_of(magnitude));
}

// Half the exponents of an f16 and a shorter fraction.
float to_float(Float8E4M3 value) {
  const std::uint32_t bits = value.bits, magnitude = bits & 0x7F;
  if (magnitude == kNanOf8Bits) return std::numeric_limits<float>::quiet_NaN();
  return 256.0F *
         to_float(Float16{static_cast<std::uint16_t>((bits & 0x80) << 8 | magnitude << 7)});
}

// The upper half of an f16's bits.
float to_float(Float8E5M2 value) {
  return to_float(Float16{static_cast<std::uint16_t>(value.bits << 8)});
}

Float16 to_float16(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits & kSign) >> 16;
  const std::uint32_t magnitude = bits & ~kSign;
  const auto with_sign = [sign](std::uint32_t half) {
    return Float16{static_cast<std::uint16_t>(sign | half)};
  };
  if (magnitude > 0x7F800000) return with_sign(0x7E00);
  if (magnitude >= bits_of(65520.0F)) return with_sign(0x7C00);  // halfway above the largest
  if (magnitude < bits_of(0x1.0p-14F))
    // Subnormal: a multiple of 2^-24; the default rounding of nearbyint is to nearest even.
    return with_sign(static_cast<std::uint32_t>(std::nearbyint(float_of(magnitude) * 0x1.0p24F)));
  return with_sign(round_bits(magnitude - (std::uint32_t{112} << 23), 13));
}

float step_of_8_bits(double magnitude, DType dtype) {
  if (std::isnan(magnitude) || std::isinf(magnitude)) return static_cast<float>(magnitude);
  const double largest = largest_8_bit(dtype);
  int exponent = magnitude > 0 ? std::ilogb(magnitude) - std::ilogb(largest) : -126;
  if (magnitude > std::ldexp(largest, exponent)) ++exponent;
  return std::ldexp(1.0F, std::clamp(exponent, -126, 126));
}

void load_as_double(DType dtype, const std::byte* from, std::span<double> to) {
  visit_storage(dtype, [&](auto element) {
    using Storage = decltype(element);
    const auto* source = reinterpret_cast<const Storage*>(from);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<double>(widen(source[i]));
  });
}

void store_from_double(DType dtype, std::span<const double> from, std::byte* to) {
  if (dtype == DType::kBool) {
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = std::byte{from[i] != 0.0};
    return;
  }
  visit_storage(dtype, [&](auto element) {
    using Storage = decltype(element);
    auto* destination = reinterpret_cast<Storage*>(to);
    for (std::size_t i = 0; i < from.size(); ++i) destination[i] = narrow<Storage>(from[i]);
  });
}

}  // namespace sextant
