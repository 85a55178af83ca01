// Woven sequences against std::sort.
#include "compiler/memory/sort_woven.h"

#include "core/base/counter_rng.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sextant::sort_woven_test {
namespace {

// Numbers of `sequences` rising sequences in a random order, with their places.
std::vector<std::pair<std::uint64_t, std::size_t>> woven(std::size_t sequences, std::size_t count) {
  const CounterRng random(static_cast<std::uint64_t>(sequences), "woven");
  std::vector<std::uint64_t> last(sequences);
  std::vector<std::pair<std::uint64_t, std::size_t>> values;
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t& value = last[random.bits(2 * i) % sequences];
    value += random.bits(2 * i + 1) % 5;
    values.emplace_back(value, i);
  }
  return values;
}

TEST_CASE("few sequences woven into each other, and many, are sorted") {
  for (const std::size_t sequences : {1U, 2U, 3U, 7U, 8U, 9U, 40U})
    for (const std::size_t count : {0U, 1U, 2U, 50U, 1000U}) {
      auto values = woven(sequences, count), expected = values;
      std::sort(expected.begin(), expected.end());
      sort_woven(values);
      CHECK(values == expected);
    }
}

TEST_CASE("falling numbers are sorted") {
  std::vector<int> values;
  for (int i = 20; i > 0; --i) values.push_back(i);
  sort_woven(values);
  CHECK(std::is_sorted(values.begin(), values.end()));
  CHECK(values.size() == 20);
}

}  // namespace
}  // namespace sextant::sort_woven_test
