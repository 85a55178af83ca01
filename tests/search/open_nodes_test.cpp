// The order in which waiting nodes come.
#include "search/search/open_nodes.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

namespace sextant::open_nodes_test {
namespace {

OpenNode open_node(double key, std::int64_t bound, std::int64_t mark) {
  OpenNode open;
  open.key = key;
  open.bound = Duration(bound);
  open.node.strategy.dp = mark;
  return open;
}

TEST_CASE("nodes come by key or by bound, the older of equals first, each once") {
  OpenNodes nodes;
  CHECK_FALSE(nodes.pop_first());
  CHECK_FALSE(nodes.pop_least_bound());
  nodes.push(open_node(3, 5, 1));
  nodes.push(open_node(1, 9, 2));
  nodes.push(open_node(1, 7, 3));
  nodes.push(open_node(2, 5, 4));
  CHECK(nodes.least_bound() == Duration(5));
  std::vector<std::int64_t> ages;
  nodes.for_each([&](const OpenNode& open) { ages.push_back(open.node.strategy.dp); });
  CHECK(ages == std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(nodes.pop_first()->node.strategy.dp == 2);
  CHECK(nodes.pop_least_bound()->node.strategy.dp == 1);
  CHECK(nodes.pop_first()->node.strategy.dp == 3);
  CHECK(nodes.least_bound() == Duration(5));
  nodes.push(open_node(0, 6, 5));
  CHECK(nodes.pop_least_bound()->node.strategy.dp == 4);
  CHECK(nodes.pop_first()->node.strategy.dp == 5);
  CHECK_FALSE(nodes.pop_first());
}

TEST_CASE("nodes whose keys change come in the order of the new ones") {
  OpenNodes nodes;
  for (const std::int64_t mark : {1, 2, 3})
    nodes.push(open_node(static_cast<double>(mark), 5, mark));
  CHECK(nodes.least_key() == 1);
  nodes.reorder([](const OpenNode& open) { return -open.key; });
  CHECK(nodes.least_key() == -3);
  CHECK(nodes.least_bound() == Duration(5));
  for (const std::int64_t mark : {3, 2, 1}) {
    const auto open = nodes.pop_first();
    REQUIRE(open);
    CHECK(open->node.strategy.dp == mark);
    CHECK(open->key == static_cast<double>(-mark));
  }
  CHECK_FALSE(nodes.pop_first());
}

}  // namespace
}  // namespace sextant::open_nodes_test
