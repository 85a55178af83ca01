// Values of 8 bits: every code, every neighbour, and what lies between and beyond.
#include "core/base/elements.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sextant::eight_bits_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A format by its definition: exponent bits with a bias, a fraction behind 1, or behind 0 where the
// exponent is 0.
struct Format {
  DType dtype;
  int exponent_bits, fraction_bits;
  int largest_code;  // of finite values
  float to_float_of(int code) const {
    const auto bits = static_cast<std::uint8_t>(code);
    return dtype == DType::kE4M3 ? to_float(Float8E4M3{bits}) : to_float(Float8E5M2{bits});
  }
  int code_of(float value) const {
    return dtype == DType::kE4M3 ? to_float8_e4m3(value).bits : to_float8_e5m2(value).bits;
  }
  double defined(int code) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (code & 0x7F) >> fraction_bits;
    const double fraction = (code & ((1 << fraction_bits) - 1)) / std::pow(2.0, fraction_bits);
    const double magnitude = exponent == 0 ? fraction * std::pow(2.0, 1 - bias)
                                           : (1 + fraction) * std::pow(2.0, exponent - bias);
    return (code & 0x80) != 0 ? -magnitude : magnitude;
  }
};

const std::vector<Format> kFormats = {{DType::kE4M3, 4, 3, 0x7E}, {DType::kE5M2, 5, 2, 0x7B}};

TEST_CASE("every code of a finite value is that value, and its own rounding") {
  for (const Format& format : kFormats)
    for (int code = 0; code < 256; ++code) {
      if ((code & 0x7F) > format.largest_code) continue;
      CAPTURE(code);
      CHECK(static_cast<double>(format.to_float_of(code)) == format.defined(code));
      CHECK(format.code_of(format.to_float_of(code)) == code);
    }
  CHECK(to_float(Float8E4M3{0x7E}) == 448.0F);
  CHECK(to_float(Float8E5M2{0x7B}) == 57344.0F);
  CHECK(largest_8_bit(DType::kE4M3) == 448.0F);
  CHECK(largest_8_bit(DType::kE5M2) == 57344.0F);
  CHECK(largest_8_bit(DType::kF32) == 0.0F);
}

TEST_CASE("the other codes are NaN, and of e5m2 the infinities") {
  for (const int sign : {0, 0x80}) {
    CHECK(std::isnan(kFormats[0].to_float_of(sign | 0x7F)));
    for (const int code : {0x7D, 0x7E, 0x7F})
      CHECK(std::isnan(kFormats[1].to_float_of(sign | code)));
    CHECK(kFormats[1].to_float_of(sign | 0x7C) == (sign != 0 ? -kInfinity : kInfinity));
  }
}

TEST_CASE("what lies between two values becomes the nearer one, halfway the even code") {
  for (const Format& format : kFormats)
    for (int code = 0; code < format.largest_code; ++code)
      for (const int sign : {0, 0x80}) {
        CAPTURE(code);
        CAPTURE(sign);
        const float low = format.to_float_of(sign | code),
                    high = format.to_float_of(sign | (code + 1));
        const float middle = low + (high - low) / 2;  // exact: one more bit
        const float direction = sign != 0 ? -kInfinity : kInfinity;
        CHECK(format.code_of(middle) == (sign | (code % 2 == 0 ? code : code + 1)));
        CHECK(format.code_of(std::nextafter(middle, -direction)) == (sign | code));
        CHECK(format.code_of(std::nextafter(middle, direction)) == (sign | (code + 1)));
      }
}

TEST_CASE("beyond the largest value there is only that one, and NaN stays NaN") {
  for (const Format& format : kFormats) {
    const float largest = largest_8_bit(format.dtype);
    for (const float beyond : {std::nextafter(largest, kInfinity), 2 * largest, 1e38F, kInfinity}) {
      CHECK(format.code_of(beyond) == format.largest_code);
      CHECK(format.code_of(-beyond) == (0x80 | format.largest_code));
    }
    for (const float sign : {1.0F, -1.0F})
      CHECK(format.code_of(std::copysign(std::numeric_limits<float>::quiet_NaN(), sign)) == 0x7F);
    CHECK(format.code_of(0.0F) == 0);
    CHECK(format.code_of(-0.0F) == 0x80);
    CHECK(format.code_of(std::numeric_limits<float>::denorm_min()) == 0);
  }
}

TEST_CASE("a step is the smallest power of two that reaches the magnitude") {
  for (const DType dtype : {DType::kE4M3, DType::kE5M2}) {
    const double largest = largest_8_bit(dtype);
    float before = 0;
    for (double magnitude = 0x1p-100; magnitude < 0x1p100; magnitude *= 1.0371) {
      CAPTURE(magnitude);
      const float step = step_of_8_bits(magnitude, dtype);
      CHECK(std::exp2(std::nearbyint(std::log2(static_cast<double>(step)))) == step);
      CHECK(magnitude <= largest * static_cast<double>(step));
      CHECK(magnitude > largest * static_cast<double>(step) / 2);
      CHECK(step >= before);
      before = step;
    }
    CHECK(step_of_8_bits(largest, dtype) == 1.0F);
    CHECK(step_of_8_bits(std::nextafter(largest, 1e9), dtype) == 2.0F);
    CHECK(step_of_8_bits(0, dtype) == 0x1p-126F);
    CHECK(step_of_8_bits(0x1p-149, dtype) == 0x1p-126F);
    CHECK(step_of_8_bits(std::numeric_limits<float>::max(), dtype) * largest >=
          static_cast<double>(std::numeric_limits<float>::max()));
    CHECK(step_of_8_bits(static_cast<double>(kInfinity), dtype) == kInfinity);
    CHECK(std::isnan(step_of_8_bits(std::nan(""), dtype)));
  }
}

TEST_CASE("types of 8 bits are named, stored in a byte and no arithmetic type") {
  for (const DType dtype : {DType::kE4M3, DType::kE5M2}) {
    CHECK(parse_dtype(to_string(dtype)) == dtype);
    CHECK(size_of(dtype) == Bytes(1));
    CHECK_FALSE(is_floating(dtype));
    CHECK(is_8_bit_floating(dtype));
    for (const DType wide : {DType::kBF16, DType::kF16, DType::kF32, DType::kF64})
      CHECK(holds_every_value(wide, dtype));
    CHECK_FALSE(holds_every_value(dtype, DType::kBF16));
    CHECK_FALSE(holds_every_value(DType::kI64, dtype));
  }
  CHECK_FALSE(holds_every_value(DType::kE4M3, DType::kE5M2));
  CHECK_FALSE(holds_every_value(DType::kE5M2, DType::kE4M3));
}

}  // namespace
}  // namespace sextant::eight_bits_test
