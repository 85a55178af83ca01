// Element types of tensors.
#pragma once

#include "core/base/units.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace sextant {

// E4M3 and E5M2 have 8 bits, as the OCP specification "8-bit floating point" (OFP8) and NVIDIA's
// tensor cores have them. E4M3: 4 bits of exponent, 3 of fraction, no infinity, at most 448. E5M2:
// 5 and 2, at most 57,344. They hold operands of scaled products. U8 is 0 to 255, values of pixels.
// In none of the three is anything computed.
enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kBool, kE4M3, kE5M2, kU8 };

inline constexpr std::array kAllDTypes = {DType::kF64,  DType::kF32, DType::kBF16, DType::kF16,
                                          DType::kI64,  DType::kI32, DType::kBool, DType::kE4M3,
                                          DType::kE5M2, DType::kU8};

Bytes size_of(DType dtype);           // of one element; bool is one byte
bool is_floating(DType dtype);        // and arithmetic is done in it: not of 8 bits
bool is_8_bit_floating(DType dtype);  // e4m3, e5m2
// Whether elements are moved and never added or compared: e4m3, e5m2, u8.
bool is_only_moved(DType dtype);
// Largest finite value of an 8-bit floating type; 0 for others.
float largest_8_bit(DType dtype);
// Whether every value of `narrow` is one of `wide`: e4m3, e5m2 < bf16, f16 < f32 < f64; i32 < i64,
// f64; u8 < all wider ones; bool < all but 8-bit floating ones. Those are no sums of parts, so
// nothing depends on more.
bool holds_every_value(DType wide, DType narrow);
std::string_view to_string(DType dtype);  // "f32"
// Throws Error(kBadInput) naming the text and every valid one.
DType parse_dtype(std::string_view text);

}  // namespace sextant
