// Conversions between storage and arithmetic types, written on the bits so that they are the same
// on every host.
#include "backends/cpu/kernels/shared/elements.h"

#include <bit>
#include <cmath>

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

}  // namespace

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
