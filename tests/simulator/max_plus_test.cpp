// Maps against their definition, for all sizes around the widths they are compiled for.
#include "simulator/modes/recurring/max_plus.h"

#include "core/base/counter_rng.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace sextant::max_plus_test {
namespace {

std::int64_t draw(std::uint32_t number) { return philox4x32({number, 0, 0, 0}, {3, 0})[0]; }

// Every third output does not depend on every second input, but all depend on the first.
std::vector<std::int64_t> random_rows(std::int32_t inputs, std::int32_t outputs) {
  std::vector<std::int64_t> rows;
  for (std::int32_t r = 0; r < outputs; ++r)
    for (std::int32_t i = 0; i < inputs; ++i)
      rows.push_back(r % 3 == 2 && i % 2 == 1 ? kNever
                                              : draw(static_cast<std::uint32_t>(r * 64 + i)));
  return rows;
}

TEST_CASE("an output of a max-plus map is the largest sum of an input and its delay") {
  MaxPlusMaps maps;
  for (std::int32_t inputs = 1; inputs <= 10; ++inputs)
    for (std::int32_t outputs = 1; outputs <= 19; ++outputs) {
      CAPTURE(inputs);
      CAPTURE(outputs);
      const std::vector<std::int64_t> rows = random_rows(inputs, outputs);
      const MaxPlusMaps::Map map = maps.add(rows, inputs, outputs);
      std::vector<std::int64_t> in;
      for (std::int32_t i = 0; i < inputs; ++i)
        in.push_back(draw(static_cast<std::uint32_t>(4096 + i)) * 1'000'000);
      std::vector<std::int64_t> out(static_cast<std::size_t>(padded_to_lanes(outputs)));
      maps.apply(map, in.data(), out.data());
      for (std::int32_t r = 0; r < outputs; ++r) {
        std::int64_t expected = kNever;
        for (std::int32_t i = 0; i < inputs; ++i)
          expected = std::max(expected, in[static_cast<std::size_t>(i)] +
                                            rows[static_cast<std::size_t>(r * inputs + i)]);
        CHECK(out[static_cast<std::size_t>(r)] == expected);
      }
    }
}

}  // namespace
}  // namespace sextant::max_plus_test
