// Element types of tensors.
#pragma once

#include "core/base/units.h"

#include <cstdint>
#include <string_view>

namespace sextant {

enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kBool };

Bytes size_of(DType dtype);  // of one element; bool is one byte
bool is_floating(DType dtype);
// Whether every value of `narrow` is one of `wide`: bf16, f16 < f32 < f64; i32 < i64, f64; bool <
// all.
bool holds_every_value(DType wide, DType narrow);
std::string_view to_string(DType dtype);  // "f32"
// Throws Error(kBadInput) naming the text and every valid one.
DType parse_dtype(std::string_view text);

}  // namespace sextant
