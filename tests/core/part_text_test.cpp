// What is taken beside what there is, readable as less or more.
#include "core/text/part_text.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace sextant::part_text_test {
namespace {

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

TEST_CASE("three digits where they tell two sizes apart, or where both are one") {
  CHECK(part_text(Bytes(60 * kGiB), Bytes(80 * kGiB)) == "60.0 GiB of 80.0 GiB");
  CHECK(part_text(Bytes(80 * kGiB), Bytes(80 * kGiB)) == "80.0 GiB of 80.0 GiB");
  CHECK(part_text(Bytes(0), Bytes(1000)) == "0 B of 1000 B");
}

// 79.1 GiB and 0.01 GiB more: 79.11; a byte is 9.3e-10 GiB.
TEST_CASE("as many digits as tell two sizes apart that would read alike") {
  const Bytes size(kGiB / 10 * 791);
  CHECK(part_text(size + Bytes(kGiB / 100), size) == "79.11 GiB of 79.10 GiB");
  for (const std::int64_t unit : {std::int64_t{1} << 10, kGiB, kGiB << 10})
    for (const std::int64_t more : {1, 2, 1000}) {
      const Bytes whole(unit * 500 + 1);
      const std::string text = part_text(whole + Bytes(more), whole);
      const std::size_t of = text.find(" of ");
      CHECK(text.substr(0, of) != text.substr(of + 4));
    }
}

}  // namespace
}  // namespace sextant::part_text_test
