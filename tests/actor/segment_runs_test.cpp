// Values by run against values by segment, and what each use costs.
#include "actor/bytes/segment_runs.h"

#include "core/base/counter_rng.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

namespace sextant::segment_runs_test {
namespace {

TEST_CASE("runs hold what an array of all segments holds, whatever is set and changed") {
  const CounterRng random(7, "segment_runs");
  std::uint64_t draw = 0;
  const auto below = [&](std::int32_t limit) {
    return static_cast<std::int32_t>(random.bits(draw++) % static_cast<std::uint64_t>(limit));
  };
  for (const std::int32_t segments : {1, 5, 63, 64, 65, 200}) {
    CAPTURE(segments);
    SegmentRuns<std::int32_t> runs(segments);
    std::vector<std::int32_t> all(static_cast<std::size_t>(segments));
    for (std::int32_t step = 1; step < 500; ++step) {
      const std::int32_t a = below(segments + 1), b = below(segments + 1);
      const SegmentRange range{std::min(a, b), std::max(a, b)};
      const auto begin = all.begin() + range.begin, end = all.begin() + range.end;
      std::set<std::int32_t> seen;
      runs.look(range, [&](std::int32_t value) { seen.insert(value); });
      REQUIRE(seen == std::set<std::int32_t>(begin, end));
      if (below(3) == 0) {
        runs.change(range, [&](std::int32_t& value) { value += step; });
        std::for_each(begin, end, [&](std::int32_t& value) { value += step; });
      } else {
        runs.set(range, step);
        std::fill(begin, end, step);
      }
    }
    for (std::int32_t i = 0; i < segments; ++i)
      runs.look({i, i + 1}, [&](std::int32_t value) { REQUIRE(value == all[at(i)]); });
  }
}

TEST_CASE("a large buffer meets each small one before it once, not in every use") {
  // A buffer of n segments is read m times between its own writes, and then n others are written
  // in its bytes: an array would look at n segments every time.
  constexpr std::int32_t kSegments = 1000, kReads = 50, kRounds = 20;
  SegmentRuns<std::int32_t> runs(kSegments);
  std::int64_t looks = 0;
  for (std::int32_t round = 0; round < kRounds; ++round) {
    runs.set({0, kSegments}, round);
    for (std::int32_t read = 0; read < kReads; ++read)
      runs.change({0, kSegments}, [&](std::int32_t&) { ++looks; });
    for (std::int32_t small = 0; small < kSegments; ++small) {
      runs.look({small, small + 1}, [&](std::int32_t) { ++looks; });
      runs.set({small, small + 1}, -small);
    }
    runs.look({0, kSegments}, [&](std::int32_t) { ++looks; });
  }
  // Per round one look per read, one per small buffer when it is written and one when it is
  // covered again.
  CHECK(looks == kRounds * (kReads + 2 * kSegments));
}

}  // namespace
}  // namespace sextant::segment_runs_test
