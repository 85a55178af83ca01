// The counter-based generator against the published vectors, and the moments of its numbers.
#include "core/base/counter_rng.h"

#include <doctest/doctest.h>

#include <cmath>

namespace sextant::counter_rng_test {
namespace {

TEST_CASE("philox4x32 gives the known answers of Random123") {
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) ==
        PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  const std::uint32_t ones = 0xffffffff;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("numbers depend on seed, stream and index") {
  const CounterRng random(1, "a");
  CHECK(random.bits(5) == CounterRng(1, "a").bits(5));
  CHECK(random.bits(5) != random.bits(6));
  CHECK(random.bits(5) != CounterRng(2, "a").bits(5));
  CHECK(random.bits(5) != CounterRng(1, "b").bits(5));
}

TEST_CASE("uniform and normal numbers have the moments of their distributions") {
  const CounterRng random(3, "moments");
  constexpr int kCount = 100'000;
  double uniform = 0, normal = 0, square = 0, fourth = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double u = random.uniform(i), x = random.normal(i);
    CHECK((u > 0.0 && u <= 1.0));
    uniform += u / kCount;
    normal += x / kCount;
    square += x * x / kCount;
    fourth += x * x * x * x / kCount;
  }
  // Five standard errors: 0.289, 1, sqrt(2), sqrt(96) over sqrt(100,000).
  CHECK(std::abs(uniform - 0.5) < 0.0046);
  CHECK(std::abs(normal) < 0.016);
  CHECK(std::abs(square - 1.0) < 0.023);
  CHECK(std::abs(fourth - 3.0) < 0.16);
}

}  // namespace
}  // namespace sextant::counter_rng_test
