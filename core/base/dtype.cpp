// Sizes and names of element types.
#include "core/base/dtype.h"

#include "core/base/check.h"

namespace sextant {

Bytes size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return Bytes(8);
    case DType::kF32:
    case DType::kI32:
      return Bytes(4);
    case DType::kBF16:
    case DType::kF16:
      return Bytes(2);
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      return Bytes(1);
  }
  return Bytes(0);
}

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kF32:
    case DType::kBF16:
    case DType::kF16:
      return true;
    case DType::kI64:
    case DType::kI32:
    case DType::kBool:
    case DType::kE4M3:
    case DType::kE5M2:
    case DType::kU8:
      return false;
  }
  return false;
}

bool is_8_bit_floating(DType dtype) { return dtype == DType::kE4M3 || dtype == DType::kE5M2; }

bool is_only_moved(DType dtype) { return is_8_bit_floating(dtype) || dtype == DType::kU8; }

float largest_8_bit(DType dtype) {
  return dtype == DType::kE4M3 ? 448.0F : dtype == DType::kE5M2 ? 57344.0F : 0.0F;
}

bool holds_every_value(DType wide, DType narrow) {
  if (wide == narrow) return true;
  if (narrow == DType::kBool) return !is_8_bit_floating(wide);
  switch (narrow) {
    case DType::kBF16:
    case DType::kF16:
      return wide == DType::kF32 || wide == DType::kF64;
    case DType::kF32:
      return wide == DType::kF64;
    case DType::kI32:
      return wide == DType::kI64 || wide == DType::kF64;
    case DType::kE4M3:
    case DType::kE5M2:
      return is_floating(wide);
    case DType::kU8:
      return is_floating(wide) || wide == DType::kI64 || wide == DType::kI32;
    case DType::kF64:
    case DType::kI64:
    case DType::kBool:
      return false;
  }
  return false;
}

std::string_view to_string(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "f16";
    case DType::kI64:
      return "i64";
    case DType::kI32:
      return "i32";
    case DType::kBool:
      return "bool";
    case DType::kE4M3:
      return "e4m3";
    case DType::kE5M2:
      return "e5m2";
    case DType::kU8:
      return "u8";
  }
  return "?";
}

DType parse_dtype(std::string_view text) {
  for (const DType dtype : kAllDTypes)
    if (text == to_string(dtype)) return dtype;
  fail(ErrorCode::kBadInput,
       "'{}' is not an element type: wanted f64, f32, bf16, f16, i64, i32, bool, or u8, e4m3 or "
       "e5m2 where 8 bits are meant",
       text);
}

}  // namespace sextant
