// Closed forms of the network model: every expected number is written out as its equation.

#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <vector>

namespace sextant::alpha_beta_test {
namespace {

// `per_node` devices in each of `nodes`; round numbers, efficiency 1.
Cluster switch_of(std::int64_t nodes, std::int64_t per_node, double bandwidth, double latency) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.devices_per_node = per_node;
  cluster.intra_node.bandwidth.value = bandwidth;
  cluster.intra_node.latency.value = latency;
  cluster.inter_node.bandwidth.value = bandwidth / 10;
  cluster.inter_node.latency.value = latency * 10;
  return cluster;
}

std::vector<Rank> ranks(std::initializer_list<int> values) {
  std::vector<Rank> result;
  for (const int value : values) result.emplace_back(value);
  return result;
}

const std::vector<Rank> kEight = ranks({0, 1, 2, 3, 4, 5, 6, 7});

Duration time_of(const Cluster& cluster, Primitive primitive, const std::vector<Rank>& members,
                 std::int64_t global_bytes, std::int64_t largest_volume = 0) {
  Communication communication;
  communication.primitive = primitive;
  CollectiveCost cost;
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = Bytes(global_bytes);
  cost.largest_volume = Bytes(largest_volume);
  return make_alpha_beta(cluster)->duration(cost);
}

// 2 (8-1) (10 ns + 100 MB / (8 x 50 GB/s)) = 14 x (10 ns + 250 us) = 3.50014 ms.
TEST_CASE("a ring all_reduce of 100 MB over 8 devices takes 3.50014 ms") {
  CHECK(time_of(switch_of(1, 8, 50e9, 10e-9), Primitive::kAllReduce, kEight, 100'000'000) ==
        Duration(3'500'140'000));
}

// A ring moves 2 (n-1)/n S in all_reduce and (n-1)/n S in its halves. With 350 GB/s that is
// 1 GB x 1.75 / 350 GB/s = 5 ms, and with 175 GB/s 1 GB x 0.875 / 175 GB/s = 5 ms: bus bandwidth
// is then 200 GB/s x 1.75 = 350 GB/s and 200 GB/s x 0.875 = 175 GB/s.
TEST_CASE("bus bandwidth factors are 2 (n-1)/n for all_reduce and (n-1)/n for its halves") {
  const Cluster fast = switch_of(1, 8, 350e9, 0);
  const Cluster slow = switch_of(1, 8, 175e9, 0);
  const Duration five_ms(5'000'000'000);
  CHECK(time_of(fast, Primitive::kAllReduce, kEight, 1'000'000'000) == five_ms);
  CHECK(time_of(slow, Primitive::kAllGather, kEight, 1'000'000'000) == five_ms);
  CHECK(time_of(slow, Primitive::kReduceScatter, kEight, 1'000'000'000) == five_ms);
}

TEST_CASE("all_reduce costs exactly reduce_scatter and then all_gather") {
  const Cluster cluster = switch_of(1, 8, 400e9, 1e-6);
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{800}, std::int64_t{1} << 33}) {
    CAPTURE(bytes);
    CHECK(time_of(cluster, Primitive::kAllReduce, kEight, bytes) ==
          time_of(cluster, Primitive::kReduceScatter, kEight, bytes) +
              time_of(cluster, Primitive::kAllGather, kEight, bytes));
  }
}

TEST_CASE("zero bytes cost the latency of every step and nothing else") {
  const Cluster cluster = switch_of(1, 4, 50e9, 1e-6);
  const auto four = ranks({0, 1, 2, 3});
  CHECK(time_of(cluster, Primitive::kAllReduce, four, 0) == Duration(6'000'000));
  CHECK(time_of(cluster, Primitive::kReduceScatter, four, 0) == Duration(3'000'000));
  CHECK(time_of(cluster, Primitive::kAllToAll, four, 0, 0) == Duration(3'000'000));
  CHECK(time_of(cluster, Primitive::kTransfer, ranks({0, 1}), 0, 0) == Duration(1'000'000));
}

TEST_CASE("a group of one costs nothing") {
  const Cluster cluster = switch_of(1, 4, 50e9, 1e-6);
  for (const Primitive primitive :
       {Primitive::kAllReduce, Primitive::kAllGather, Primitive::kReduceScatter,
        Primitive::kAllToAll, Primitive::kBroadcast, Primitive::kShift, Primitive::kTransfer})
    CHECK(time_of(cluster, primitive, ranks({2}), 1 << 30, 1 << 30) == Duration(0));
}

// 1 MB / 50 GB/s = 20 us, plus 7 hops.
TEST_CASE("a broadcast is never free") {
  CHECK(time_of(switch_of(1, 8, 50e9, 0), Primitive::kBroadcast, kEight, 1'000'000) ==
        Duration(20'000'000));
  CHECK(time_of(switch_of(1, 8, 50e9, 1e-6), Primitive::kBroadcast, kEight, 1'000'000) ==
        Duration(27'000'000));
}

// 4 parts of 1 MB at once: 1 us + 1 MB / 50 GB/s = 21 us.
TEST_CASE("a shift takes one step of a ring, however many devices there are") {
  CHECK(time_of(switch_of(1, 4, 50e9, 1e-6), Primitive::kShift, ranks({0, 1, 2, 3}), 4'000'000) ==
        Duration(21'000'000));
  CHECK(time_of(switch_of(1, 8, 50e9, 1e-6), Primitive::kShift, kEight, 8'000'000) ==
        Duration(21'000'000));
}

// 6,442,450,944 B / 100 GB/s = 64.42450944 ms: a size that does not fit 32 bits.
TEST_CASE("transfers of more than 4 GiB keep their size") {
  CHECK(time_of(switch_of(1, 2, 100e9, 0), Primitive::kTransfer, ranks({0, 1}), 0, 6'442'450'944) ==
        Duration(64'424'509'440));
}

// Two nodes of 8, intra 400 GB/s, inter 40 GB/s per device.
TEST_CASE("a group that spans nodes uses the inter-node link of each of its members") {
  const Cluster cluster = switch_of(2, 8, 400e9, 0);
  const std::int64_t bytes = 16'000'000'000;
  // One member per node: (2-1) x 16 GB / (2 x 40 GB/s) = 200 ms.
  CHECK(time_of(cluster, Primitive::kAllGather, ranks({0, 8}), bytes) == Duration(200'000'000'000));
  // Two per node, 80 GB/s of rails: one half between nodes, 8 GB / 80 GB/s = 100 ms, one half
  // inside them, 8 GB / 400 GB/s = 20 ms.
  CHECK(time_of(cluster, Primitive::kAllGather, ranks({0, 1, 8, 9}), bytes) ==
        Duration(120'000'000'000));
  // Sixteen: both levels take 7/8 x 40 + 1/2 x 50 = 60 ms; a ring at min(400, 8 x 40) = 320 GB/s
  // 15 x 16 GB / (16 x 320 GB/s) = 46.875 ms.
  std::vector<Rank> all;
  for (int rank = 0; rank < 16; ++rank) all.emplace_back(rank);
  CHECK(time_of(cluster, Primitive::kAllGather, all, bytes) == Duration(46'875'000'000));
  // A transfer leaves through the sender's own link: 4 GB / 40 GB/s = 100 ms.
  CHECK(time_of(cluster, Primitive::kTransfer, ranks({0, 1, 8, 9}), 0, 4'000'000'000) ==
        Duration(100'000'000'000));
}

TEST_CASE("all members complete together, one duration after the last arrival") {
  const auto network = make_alpha_beta(switch_of(1, 2, 1e9, 0));
  Communication communication;
  CollectiveCost cost;
  const auto members = ranks({0, 1});
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = Bytes(1'000'000);  // 2 x 1 x 1 MB / (2 x 1 GB/s) = 1 ms
  const std::vector<Time> arrivals = {Time(5), Time(7)};
  std::vector<Time> done(2);
  network->complete(cost, arrivals, done);
  CHECK(done[0] == Time(1'000'000'007));
  CHECK(done[1] == Time(1'000'000'007));
}

TEST_CASE("more bandwidth is never slower and more latency never faster") {
  for (const Primitive primitive :
       {Primitive::kAllReduce, Primitive::kAllGather, Primitive::kReduceScatter,
        Primitive::kAllToAll, Primitive::kBroadcast, Primitive::kShift, Primitive::kTransfer}) {
    const auto at = [&](double bandwidth, double latency) {
      return time_of(switch_of(2, 4, bandwidth, latency), primitive, kEight, 1 << 20, 1 << 17);
    };
    CHECK(at(100e9, 1e-6) <= at(50e9, 1e-6));
    CHECK(at(50e9, 1e-6) <= at(50e9, 2e-6));
  }
}

}  // namespace
}  // namespace sextant::alpha_beta_test
