// Digits against std::sort.
#include "core/base/radix_sort.h"

#include "core/base/counter_rng.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace sextant::radix_sort_test {
namespace {

using Numbered = std::pair<std::int64_t, int>;

void check(std::vector<Numbered> numbers) {
  std::vector<Numbered> expected = numbers;
  const auto key = [](const Numbered& numbered) { return numbered.first; };
  std::stable_sort(expected.begin(), expected.end(),
                   [&](const Numbered& a, const Numbered& b) { return key(a) < key(b); });
  radix_sort(numbers, key);
  CHECK(numbers == expected);
}

TEST_CASE("keys of any number of digits are sorted, equal ones keep their order") {
  const CounterRng random(0, "digits");
  std::uint64_t draw = 0;
  for (const unsigned bits : {1U, 8U, 11U, 12U, 22U, 37U, 63U})
    for (const int count : {0, 1, 2, 500}) {
      std::vector<Numbered> numbers;
      for (int i = 0; i < count; ++i)
        numbers.emplace_back(static_cast<std::int64_t>(random.bits(draw++) >> (64U - bits)), i);
      check(std::move(numbers));
    }
}

TEST_CASE("digits that are zero in all keys are left out, the largest key is sorted too") {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  check(
      {{std::numeric_limits<std::int64_t>::max(), 0}, {kFar, 1}, {0, 2}, {3 * kFar, 3}, {kFar, 4}});
}

}  // namespace
}  // namespace sextant::radix_sort_test
