// Devices without work and groups across nodes, counted by hand.
#include "compiler/strategy/rank_use.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::rank_use_test {
namespace {

RankUse use_of(const char* strategy, std::int64_t nodes, std::int64_t devices_per_node) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.devices_per_node = devices_per_node;
  return rank_use(parse_strategy(strategy), cluster);
}

using Texts = std::vector<std::string>;

TEST_CASE("F34: tp=24 on four nodes of eight leaves eight devices idle and crosses three nodes") {
  const RankUse use = use_of("tp=24", 4, 8);
  CHECK(idle_text(use) == "8 of 32 devices are idle: {24-31}");
  CHECK(crossing_texts(use) ==
        Texts{"tp crosses nodes: 1 of 1 groups of 24, over 3 nodes at most"});
}

TEST_CASE("F34: six heads on eight devices leave two of them idle; nothing leaves the node") {
  const RankUse use = use_of("tp=6", 1, 8);
  CHECK(idle_text(use) == "2 of 8 devices are idle: {6, 7}");
  CHECK(crossing_texts(use).empty());
  CHECK(idle_text(use_of("tp=7", 1, 8)) == "1 of 8 devices is idle: {7}");
}

TEST_CASE("axes cross nodes by their place in the order") {
  // tp steps by 1, dp by 4, pp by 8: two nodes of eight, so pp alone crosses.
  const RankUse usual = use_of("tp=4 dp=2 pp=2", 2, 8);
  CHECK(idle_text(usual).empty());
  CHECK(usual.axes == std::vector<AxisReach>{{RankAxis::kTp, 4, 4, 0, 1},
                                             {RankAxis::kDp, 2, 8, 0, 1},
                                             {RankAxis::kPp, 2, 8, 8, 2}});
  // pp steps by 1, dp by 2, tp by 4: groups of tp are {0, 4, 8, 12}, ..., all on both nodes.
  CHECK(crossing_texts(use_of("tp=4 dp=2 pp=2 order=pp,dp,tp", 2, 8)) ==
        Texts{"tp crosses nodes: 4 of 4 groups of 4, over 2 nodes at most"});
  // Replicas of dp are ep=2 around each other first, by 1, then the other two, by 2.
  CHECK(crossing_texts(use_of("dp=4 ep=2", 2, 2)) ==
        Texts{"dp crosses nodes: 2 of 2 groups of 2, over 2 nodes at most"});
  // Groups of three on nodes of four: {3-5} and {6-8} cross, {0-2} and {9-11} do not.
  CHECK(crossing_texts(use_of("tp=3 dp=4", 3, 4)).front() ==
        "tp crosses nodes: 2 of 4 groups of 3, over 2 nodes at most");
}

}  // namespace
}  // namespace sextant::rank_use_test
