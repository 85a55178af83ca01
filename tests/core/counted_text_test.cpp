// Numbers and nouns that agree.
#include "core/text/counted_text.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>

namespace sextant::counted_text_test {
namespace {

TEST_CASE("one is one, everything else is many") {
  CHECK(counted(1, "rank") == "1 rank");
  CHECK(counted(0, "rank") == "0 ranks");
  CHECK(counted(std::size_t{2}, "rank") == "2 ranks");
  CHECK(counted(std::int64_t{16'384}, "device") == "16384 devices");
  CHECK(counted(-1, "step") == "-1 steps");
}

TEST_CASE("plurals follow the end of the noun, or are spelled out") {
  CHECK(counted(2, "strategy") == "2 strategies");
  CHECK(counted(2, "way") == "2 ways");
  CHECK(counted(2, "class") == "2 classes");
  CHECK(counted(2, "launch") == "2 launches");
  CHECK(counted(2, "axis", "axes") == "2 axes");
  CHECK(counted(1, "step was", "steps were") == "1 step was");
}

}  // namespace
}  // namespace sextant::counted_text_test
