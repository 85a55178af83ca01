// Conversions of the 16-bit floating formats, on all their values and at the halfway points.
#include "core/base/elements.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace sextant::elements_test {
namespace {

TEST_CASE("every bf16 and f16 value survives the way to float and back") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (const float value = to_float(BFloat16{half}); !std::isnan(value))
      REQUIRE(to_bfloat16(value).bits == half);
    if (const float value = to_float(Float16{half}); !std::isnan(value))
      REQUIRE(to_float16(value).bits == half);
  }
}

TEST_CASE("halfway values go to the even neighbour") {
  // 2049 lies between the f16 numbers 2048 and 2050, 2051 between 2050 and 2052.
  CHECK(to_float(to_float16(2049.0F)) == 2048.0F);
  CHECK(to_float(to_float16(2051.0F)) == 2052.0F);
  CHECK(to_float(to_bfloat16(257.0F)) == 256.0F);
  CHECK(to_float(to_bfloat16(259.0F)) == 260.0F);
}

TEST_CASE("f16 overflows to infinity, underflows to subnormals and keeps NaN") {
  CHECK(to_float(to_float16(65504.0F)) == 65504.0F);
  CHECK(to_float(to_float16(65519.0F)) == 65504.0F);
  CHECK(std::isinf(to_float(to_float16(65520.0F))));
  CHECK(to_float(to_float16(-0x1.0p-24F)) == -0x1.0p-24F);
  CHECK(to_float(to_float16(0x1.0p-25F)) == 0.0F);  // halfway to zero, which is even
  CHECK(to_float(to_float16(0x1.8p-25F)) == 0x1.0p-24F);
  CHECK(std::isnan(to_float(to_float16(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(to_float(to_bfloat16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace sextant::elements_test
