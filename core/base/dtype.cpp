// Sizes and names of element types.
#include "core/base/dtype.h"

#include "core/base/check.h"

#include <array>

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
      return false;
  }
  return false;
}

bool holds_every_value(DType wide, DType narrow) {
  if (wide == narrow || narrow == DType::kBool) return true;
  switch (narrow) {
    case DType::kBF16:
    case DType::kF16:
      return wide == DType::kF32 || wide == DType::kF64;
    case DType::kF32:
      return wide == DType::kF64;
    case DType::kI32:
      return wide == DType::kI64 || wide == DType::kF64;
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
  }
  return "?";
}

DType parse_dtype(std::string_view text) {
  constexpr std::array kAll = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                               DType::kI64, DType::kI32, DType::kBool};
  for (const DType dtype : kAll)
    if (text == to_string(dtype)) return dtype;
  fail(ErrorCode::kBadInput,
       "'{}' is not an element type: wanted f64, f32, bf16, f16, i64, i32 or bool", text);
}

}  // namespace sextant
