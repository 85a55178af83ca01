// Communicators of NCCL: which communications share one, and what they take.
#include "backends/cuda/ranks/communicator_key.h"

#include <doctest/doctest.h>

#include <vector>

namespace sextant::communicator_key_test {
namespace {

PhysicalGraph graph_of(const std::vector<std::vector<int>>& groups) {
  PhysicalGraph graph;
  for (const std::vector<int>& ranks : groups) {
    DeviceGroup& group = graph.groups.emplace_back();
    for (const int rank : ranks) group.ranks.emplace_back(rank);
  }
  return graph;
}

}  // namespace

TEST_CASE("collectives of equal ranks share a communicator, transfers of two groups never do") {
  const PhysicalGraph graph = graph_of({{0, 1}, {0, 1}, {1, 0}});
  const auto key = [&](int group, Primitive primitive) {
    return communicator_key(graph, GroupId(group), primitive);
  };
  using enum Primitive;
  CHECK(key(0, kAllReduce) == key(1, kAllGather));
  // The position of a rank decides which part it gets.
  CHECK(key(0, kAllReduce) != key(2, kAllReduce));
  // Their sides are on two queues: one communicator would order what may overtake.
  CHECK(key(0, kTransfer) != key(1, kTransfer));
  CHECK(key(0, kTransfer) != key(0, kAllReduce));
}

TEST_CASE("what a communicator takes is what was measured on H200, and no less") {
  const auto mib = [](bool rings, bool receives, int blocks) {
    return communicator_bytes({.rings = rings, .receives = receives}, blocks).value >> 20;
  };
  // 8 blocks: 54, +96, +96; 16 blocks: 100, +192 (design 11, section 6).
  CHECK(mib(false, false, 8) == 56);
  CHECK(mib(true, false, 8) == 56 + 96);
  CHECK(mib(true, true, 8) == 56 + 2 * 96);
  CHECK(mib(false, false, 16) == 104);
  CHECK(mib(true, false, 16) == 104 + 192);
}

TEST_CASE("transfers take few blocks, collectives all that they may unless they go slowly") {
  const CommunicatorKey collectives{{Rank(0), Rank(1)}, GroupId{}};
  const CommunicatorKey transfers{{Rank(0), Rank(1)}, GroupId(3)};
  CHECK(blocks_of(collectives, false, 16) == 16);
  CHECK(blocks_of(collectives, true, 16) == kBlocksInCompany);
  CHECK(blocks_of(transfers, false, 16) == kBlocksInCompany);
  CHECK(blocks_of(transfers, false, 2) == 2);
}

TEST_CASE("collectives go slowly where what is beside them has room and nobody waits") {
  // 4 blocks move 82 GB in a second.
  CHECK(goes_slowly({.seconds = 1, .bytes = 45e9, .waiting_share = 0.005}));
  CHECK_FALSE(goes_slowly({.seconds = 1, .bytes = 58e9, .waiting_share = 0.005}));
  CHECK_FALSE(goes_slowly({.seconds = 1, .bytes = 10e9, .waiting_share = 0.02}));
  CHECK_FALSE(goes_slowly({.seconds = 1, .bytes = 0}));  // none are there
}

}  // namespace sextant::communicator_key_test
