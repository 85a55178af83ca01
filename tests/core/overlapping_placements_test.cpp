// Programs whose ranks are devices of two placements: their text, and which parts a rank holds.
// What the validator refuses of them is in broken_graphs/overlapping.txt.
#include "core/graphs/physical_graph_text.h"
#include "tests/support/graph_files.h"

#include <doctest/doctest.h>

namespace sextant::overlapping_placements_test {
namespace {

TEST_CASE("a graph over overlapping placements comes back from its text unchanged") {
  const PhysicalGraph graph = testing::graph_file("overlapping");
  CHECK(physical_graph_from_text(to_text(graph)) == graph);
}

TEST_CASE("a rank holds of each placement what its position there gives it") {
  const PhysicalGraph graph = testing::graph_file("overlapping");
  const auto rows = [&](int layout, int rank) {
    return shard_of(graph, LayoutId(layout), Rank(rank)).dims[0];
  };
  CHECK(rows(0, 2) == Interval{4, 2});
  CHECK(rows(1, 2) == Interval{2, 2});
  CHECK_THROWS(rows(1, 0));
}

}  // namespace
}  // namespace sextant::overlapping_placements_test
