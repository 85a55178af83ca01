// Closed forms of the algorithms, each expected number written out, and laws over random clusters.

#include "simulator/costs/nccl_model.h"

#include "core/base/error.h"
#include "core/graphs/primitives.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/clusters/builtin_clusters.h"
#include "simulator/clusters/bus_bandwidth.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace sextant::nccl_model_test {
namespace {

Cluster switch_of(std::int64_t nodes, std::int64_t per_node, double bandwidth, double latency) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.devices_per_node = per_node;
  cluster.intra_node.name = "local";
  cluster.intra_node.bandwidth.value = bandwidth;
  cluster.intra_node.latency.value = latency;
  cluster.inter_node.name = "remote";
  cluster.inter_node.bandwidth.value = bandwidth / 10;
  cluster.inter_node.latency.value = latency * 10;
  return cluster;
}

CollectiveAlgorithm algorithm(std::string name, double base, double step, double efficiency = 1) {
  CollectiveAlgorithm result;
  result.name = std::move(name);
  result.protocol = "simple";
  result.base_latency.value = base;
  result.step_latency.value = step;
  result.efficiency.value = efficiency;
  return result;
}

std::vector<Rank> first(std::int64_t count) {
  std::vector<Rank> members;
  for (std::int64_t i = 0; i < count; ++i) members.emplace_back(static_cast<int>(i));
  return members;
}

std::vector<Rank> ranks(std::initializer_list<int> values) {
  std::vector<Rank> result;
  for (const int value : values) result.emplace_back(value);
  return result;
}

Duration time_of(const NetworkModel& network, Primitive primitive, const std::vector<Rank>& members,
                 std::int64_t global_bytes, std::int64_t largest_volume = 0) {
  Communication communication;
  communication.primitive = primitive;
  CollectiveCost cost;
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = Bytes(global_bytes);
  cost.largest_volume = Bytes(largest_volume);
  return network.duration(cost);
}

Duration time_of(const Cluster& cluster, Primitive primitive, const std::vector<Rank>& members,
                 std::int64_t global_bytes, std::int64_t largest_volume = 0) {
  return time_of(*make_network_model(cluster), primitive, members, global_bytes, largest_volume);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(end));
  }
  std::int64_t size() { return below(std::int64_t{1} << (1 + below(34))); }
  double between(double low, double high) {
    return low * std::pow(high / low, static_cast<double>(below(1000)) / 1000);
  }
  std::vector<Rank> devices(std::int64_t of, std::int64_t count) {
    std::vector<Rank> all = first(of);
    std::shuffle(all.begin(), all.end(), engine_);
    all.resize(static_cast<std::size_t>(count));
    return all;
  }

 private:
  std::mt19937_64 engine_;
};

Wiring random_wiring(Random& random, NetworkLink& link, std::int64_t ends) {
  const Wiring wiring = static_cast<Wiring>(random.below(5));
  if (wiring == Wiring::kTorus) link.extents = {2, ends / 2};
  if (wiring == Wiring::kCables)
    for (std::int32_t end = 0; end < ends; ++end)
      link.cables.push_back({end, static_cast<std::int32_t>((end + 1) % ends), 1 + end % 2});
  return wiring;
}

void add_algorithms(Random& random, NetworkLink& link) {
  for (const char* name : {"ring", "direct", "tree", "nvls", "hierarchical", "pairwise"})
    for (const char* protocol : {"ll", "ll128", "simple"}) {
      if (random.below(3) != 0) continue;
      CollectiveAlgorithm one = algorithm(name, random.between(1e-7, 1e-4),
                                          random.between(1e-7, 1e-5), random.between(0.2, 0.99));
      one.protocol = protocol;
      one.own_copy.value = 0.1 * static_cast<double>(random.below(5));
      link.algorithms.push_back(one);
    }
}

// 4 nodes of 4 (and leaves of 2), all wirings, any algorithms.
Cluster random_cluster(Random& random) {
  Cluster cluster = switch_of(4, 4, random.between(1e9, 1e12), random.between(1e-8, 1e-5));
  cluster.inter_node.bandwidth.value = random.between(1e8, 1e12);
  cluster.inter_node.latency.value = random.between(1e-8, 1e-4);
  cluster.intra_node.efficiency.value = random.between(0.3, 0.99);
  cluster.intra_node.wiring = random_wiring(random, cluster.intra_node, 4);
  if (random.below(2) == 0) {
    OuterTier leaf;
    leaf.nodes_per_group = 2;
    leaf.link.bandwidth.value = random.between(1e8, 1e12);
    leaf.link.latency.value = random.between(1e-8, 1e-4);
    cluster.outer_tiers.push_back(leaf);
  } else {
    cluster.inter_node.wiring = random_wiring(random, cluster.inter_node, 4);
  }
  if (random.below(3) != 0) add_algorithms(random, cluster.intra_node);
  if (random.below(3) != 0) add_algorithms(random, cluster.inter_node);
  return cluster;
}

std::vector<Cluster> many_clusters(std::uint64_t seed) {
  Random random(seed);
  std::vector<Cluster> clusters;
  for (int i = 0; i < 60; ++i) clusters.push_back(random_cluster(random));
  for (const BuiltinCluster& builtin : builtin_clusters())
    clusters.push_back(load_cluster(builtin.name == "cpu" ? "cpu:ranks=16,memory=2GiB"
                                                          : builtin.name + ":nodes=2"));
  return clusters;
}

// 100 MB over 8 at 50 GB/s: 14 steps of 10 ns + 250 us, and 2 steps of 10 ns with the same bytes
// through each port: 2 x 10 ns + 14 x 250 us.
TEST_CASE("G52: a ring all_reduce takes 3.50014 ms and a direct one 3.50002 ms, not half") {
  Cluster cluster = switch_of(1, 8, 50e9, 10e-9);
  const Duration ring(3'500'140'000), direct(3'500'020'000);
  CHECK(time_of(cluster, Primitive::kAllReduce, first(8), 100'000'000) == ring);
  cluster.intra_node.algorithms = {algorithm("ring", 0, 10e-9)};
  CHECK(time_of(cluster, Primitive::kAllReduce, first(8), 100'000'000) == ring);
  cluster.intra_node.algorithms = {algorithm("direct", 0, 10e-9)};
  CHECK(time_of(cluster, Primitive::kAllReduce, first(8), 100'000'000) == direct);
  cluster.intra_node.algorithms.push_back(algorithm("ring", 0, 10e-9));
  CHECK(time_of(cluster, Primitive::kAllReduce, first(8), 100'000'000) == direct);
}

TEST_CASE("a link without algorithms is alpha-beta, picosecond for picosecond") {
  Random random(1);
  for (int i = 0; i < 200; ++i) {
    Cluster cluster = switch_of(4, 4, random.between(1e9, 1e12), random.between(1e-8, 1e-5));
    cluster.inter_node.bandwidth.value = random.between(1e8, 1e12);
    cluster.intra_node.efficiency.value = random.between(0.3, 0.99);
    const auto baseline = make_alpha_beta(cluster);
    const auto network = make_network_model(cluster);
    for (const Primitive primitive : kPrimitives) {
      const auto members = random.devices(16, 1 + random.below(16));
      const std::int64_t bytes = random.size(), volume = random.size();
      CHECK(time_of(*network, primitive, members, bytes, volume) ==
            time_of(*baseline, primitive, members, bytes, volume));
    }
  }
}

// Two nodes of 8 without algorithms, S = 64 MiB: S / B = 1 ms inside, 16 ms over the 8 x 524.288
// MB/s of a node. By level 2 x 7/8 x 1 ms + 2 x 1/2 x 16 ms; one ring over all would put 2 x 15/16
// x 16 ms = 30 ms through the NICs. Of the 60 MiB that a member sends to 15 others 32 MiB leave its
// node.
TEST_CASE("a link without algorithms charges a NIC with the bytes that leave its node only") {
  constexpr std::int64_t kMebibyte = 1 << 20;
  Cluster cluster = switch_of(2, 8, 67'108'864'000, 0);
  cluster.inter_node.bandwidth.value = 524'288'000;
  for (const auto& network : {make_network_model(cluster), make_alpha_beta(cluster)}) {
    const auto time = [&](Primitive primitive, std::int64_t bytes) {
      return time_of(*network, primitive, first(16), bytes, bytes);
    };
    CHECK(time(Primitive::kAllReduce, 64 * kMebibyte) == Duration(17'750'000'000));
    CHECK(time(Primitive::kAllGather, 64 * kMebibyte) == Duration(8'875'000'000));
    CHECK(time(Primitive::kReduceScatter, 64 * kMebibyte) == Duration(8'875'000'000));
    CHECK(time(Primitive::kAllToAll, 60 * kMebibyte) == Duration(64'000'000'000));
  }
  // Three members in one node and one in the other are no levels: a ring, whose one port carries
  // 3/4 of S each way, 3/4 x 128 ms.
  CHECK(time_of(cluster, Primitive::kAllGather, ranks({0, 1, 2, 8}), 64 * kMebibyte) ==
        Duration(96'000'000'000));
}

// 1 us inside, 10 us between nodes. Rings and pairs: 14 steps inside and 1 between; an exchange
// reaches 7 members inside and 8 outside.
TEST_CASE("a link without algorithms pays the latency of each step where it is taken") {
  const Cluster cluster = switch_of(2, 8, 100e9, 1e-6);
  // By level: 7 inside, 1 between.
  CHECK(time_of(cluster, Primitive::kAllGather, first(16), 0) == Duration(17'000'000));
  CHECK(time_of(cluster, Primitive::kBroadcast, first(16), 0) == Duration(24'000'000));
  CHECK(time_of(cluster, Primitive::kAllToAll, first(16), 0) == Duration(87'000'000));
  CHECK(time_of(cluster, Primitive::kTransfer, first(16), 0) == Duration(10'000'000));
}

TEST_CASE("G53: zero bytes take the latency of the fastest way and no time in the division") {
  Cluster cluster = switch_of(1, 4, 50e9, 1e-6);
  CHECK(time_of(cluster, Primitive::kAllReduce, first(4), 0) == Duration(6'000'000));
  CHECK(time_of(cluster, Primitive::kReduceScatter, first(4), 0) == Duration(3'000'000));
  // 5 us + 6 x 2 us; nvls 8 us + 2 x 1 us.
  cluster.intra_node.algorithms = {algorithm("ring", 5e-6, 2e-6), algorithm("nvls", 8e-6, 1e-6)};
  CHECK(time_of(cluster, Primitive::kAllReduce, first(4), 0) == Duration(10'000'000));
}

// 1 MB / 50 GB/s = 20 us.
TEST_CASE("G54: a broadcast of 1 MB at 50 GB/s takes at least 20 us, whatever runs it") {
  Cluster cluster = switch_of(1, 8, 50e9, 0);
  CHECK(time_of(cluster, Primitive::kBroadcast, first(8), 1'000'000) == Duration(20'000'000));
  cluster.intra_node.algorithms = {algorithm("ring", 1e-6, 1e-6), algorithm("tree", 0, 0)};
  CHECK(time_of(cluster, Primitive::kBroadcast, first(8), 1'000'000) == Duration(28'000'000));
}

TEST_CASE("G54: a primitive without a cost is an error, never free") {
  const Primitive unknown = static_cast<Primitive>(99);
  CHECK_THROWS_AS(time_of(switch_of(1, 8, 50e9, 0), unknown, first(8), 1), Error);
  CHECK_THROWS_AS(time_of(switch_of(1, 8, 50e9, 0), unknown, first(1), 1), Error);
  CHECK_THROWS_AS(time_of(*make_alpha_beta(switch_of(1, 8, 50e9, 0)), unknown, first(8), 1), Error);
}

// 6,442,450,944 B / 100 GB/s = 64.42450944 ms; 2^62 B / 100 GB/s = 46,116,860.184 s = 534 days.
TEST_CASE("G58: sizes beyond 32 bits keep their size, times beyond 106 days are refused") {
  const Cluster cluster = switch_of(1, 2, 100e9, 0);
  CHECK(time_of(cluster, Primitive::kTransfer, first(2), 0, 6'442'450'944) ==
        Duration(64'424'509'440));
  CHECK(time_of(cluster, Primitive::kAllReduce, first(2), 6'442'450'944) ==
        Duration(64'424'509'440));
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const Primitive primitive : kPrimitives)
    CHECK_THROWS_AS(time_of(cluster, primitive, first(2), huge, huge), Error);
  // Each half fits, their sum does not: 9e8 GB, halves of 75 days.
  CHECK_THROWS_AS(
      time_of(switch_of(1, 2, 1e6, 0), Primitive::kAllReduce, first(2), 13'000'000'000'000), Error);
}

// 1 GB in 5 ms is 200 GB/s; x 2 x 7/8 and x 7/8. Sizes are of the whole tensor.
TEST_CASE("G56: 1 GB over 8 ranks in 5 ms is 200 GB/s, on the bus 350, 175 and 175") {
  const Bytes size(1'000'000'000);
  const Duration time(5'000'000'000);
  CHECK(algorithm_bandwidth(size, time) == doctest::Approx(200e9));
  CHECK(bus_bandwidth(Primitive::kAllReduce, 8, size, time) == doctest::Approx(350e9));
  CHECK(bus_bandwidth(Primitive::kAllGather, 8, size, time) == doctest::Approx(175e9));
  CHECK(bus_bandwidth(Primitive::kReduceScatter, 8, size, time) == doctest::Approx(175e9));
  CHECK(bus_bandwidth(Primitive::kAllToAll, 8, size, time) == doctest::Approx(175e9));
  CHECK(bus_bandwidth(Primitive::kBroadcast, 8, size, time) == doctest::Approx(200e9));
  CHECK(bus_bandwidth(Primitive::kAllReduce, 1, size, time) == 0);
  CHECK_THROWS_AS(algorithm_bandwidth(size, Duration(0)), Error);
  CHECK_THROWS_AS(bus_bandwidth_factor(Primitive::kAllReduce, 0), Error);
  CHECK_THROWS_AS(bus_bandwidth_factor(static_cast<Primitive>(99), 8), Error);
}

// A link of 450 GB/s that a ring without latency fills shows 450 GB/s on the bus, at any size of
// group.
TEST_CASE("G56: a ring shows its link's bandwidth on the bus") {
  for (std::int64_t n = 2; n <= 8; ++n)
    for (const Primitive primitive :
         {Primitive::kAllReduce, Primitive::kAllGather, Primitive::kReduceScatter}) {
      const Bytes size(840'000'000'000);
      const Duration time = time_of(switch_of(1, 8, 450e9, 0), primitive, first(n), size.value);
      CHECK(bus_bandwidth(primitive, n, size, time) == doctest::Approx(450e9));
    }
}

// 8 x 12.5 GB/s of rails; 16 members on 2 nodes, S = 1.6 GB, 100 GB/s inside, no latency.
TEST_CASE("each algorithm between nodes moves what its closed form says") {
  Cluster cluster = switch_of(2, 8, 100e9, 0);
  cluster.inter_node.bandwidth.value = 12.5e9;
  const auto with = [&](const std::string& name) {
    cluster.inter_node.algorithms = {algorithm(name, 0, 0)};
    return time_of(cluster, Primitive::kAllReduce, first(16), 1'600'000'000);
  };
  // Ring: min(100, 100) GB/s: 30/16 x 1.6 GB / 100 GB/s = 30 ms.
  CHECK(with("ring") == Duration(30'000'000'000));
  // Tree: 2 S / B = 32 ms inside, S / 100 GB/s = 16 ms between two nodes; never more than the
  // reduce_scatter and all_gather that alpha-beta has for the same links: 30 ms.
  CHECK(with("tree") == Duration(30'000'000'000));
  // nvls: (1 + 1/8) S / B = 18 ms inside, 16 ms between.
  CHECK(with("nvls") == Duration(18'000'000'000));
  // Hierarchical: 2 x (7/8 S / 100 + 1/2 S / 100) = 2 x (14 + 8) ms.
  CHECK(with("hierarchical") == Duration(44'000'000'000));
  cluster.inter_node.bandwidth.value = 6.25e9;  // ring 60 ms; hierarchical 2 x (14 + 16)
  CHECK(with("hierarchical") == Duration(60'000'000'000));
  // Four nodes: nvls waits for a tree edge up and one down, 2 S / (8 x 6.25 GB/s) = 64 ms, and
  // alpha-beta's halves are 2 x 31/32 x 1.6 GB / 50 GB/s = 62 ms.
  cluster.nodes = 4;
  cluster.inter_node.algorithms = {algorithm("nvls", 0, 0)};
  CHECK(time_of(cluster, Primitive::kAllReduce, first(32), 1'600'000'000) ==
        Duration(62'000'000'000));
  cluster.inter_node.efficiency.value = 0.5;  // of alpha-beta only
  CHECK(time_of(cluster, Primitive::kAllReduce, first(32), 1'600'000'000) ==
        Duration(64'000'000'000));
}

// 2 nodes of 8, ports of 50 GB/s; ll reaches 45 GB/s of 8 ports together. One port of them has half
// of its line in a ring: 2 x 1/2 x 50 MB / 25 GB/s = 2 ms, not 50 MB / 5.625 GB/s. Eight members
// per node, and seven, are at the ceiling: 30/16 x 450 MB / 45 GB/s.
TEST_CASE(
    "the ceiling of ll is a node's: one port reaches half of its line, eight what is listed") {
  Cluster cluster = switch_of(2, 8, 1e15, 0);
  cluster.inter_node.bandwidth.value = 50e9;
  CollectiveAlgorithm ll = algorithm("ring", 0, 0, 45.0 / 400);
  ll.protocol = "ll";
  cluster.inter_node.algorithms = {ll};
  const auto all_reduce = [&](const std::vector<Rank>& members, std::int64_t bytes) {
    return time_of(cluster, Primitive::kAllReduce, members, bytes);
  };
  CHECK(all_reduce(ranks({0, 8}), 50'000'000) == Duration(2'000'000'000));
  CHECK(all_reduce(first(16), 450'000'000) == Duration(18'750'000'000));
  CHECK(all_reduce(ranks({0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14}), 450'000'000) ==
        Duration(18'571'428'571));
  // One that is said to reach more than half of the line keeps what it is said to reach.
  cluster.inter_node.algorithms[0].efficiency.value = 0.8;
  CHECK(all_reduce(ranks({0, 8}), 50'000'000) == Duration(1'250'000'000));
}

TEST_CASE("a hierarchical all_reduce pays latency per level and a ring per member") {
  Cluster cluster = switch_of(4, 8, 100e9, 1e-6);
  cluster.inter_node.algorithms = {algorithm("hierarchical", 0, 10e-6)};
  // 2 x (7 x 1 us + 3 x 10 us).
  CHECK(time_of(cluster, Primitive::kAllReduce, first(32), 0) == Duration(74'000'000));
  // 2 x (28 x 1 us + 3 x 10 us): 31 steps, three of them between nodes.
  cluster.inter_node.algorithms = {algorithm("ring", 0, 10e-6)};
  CHECK(time_of(cluster, Primitive::kAllReduce, first(32), 0) == Duration(116'000'000));
  // 2 x (7 x 1 us + log2(4) x 10 us).
  cluster.inter_node.algorithms = {algorithm("tree", 0, 10e-6)};
  CHECK(time_of(cluster, Primitive::kAllReduce, first(32), 0) == Duration(54'000'000));
}

// Each of 2 members on each of 2 nodes sends 30 MB: 10 MB to its neighbour at 100 GB/s, 20 MB
// through its own 10 GB/s.
TEST_CASE("an all_to_all leaves a node through each member's own share") {
  Cluster cluster = switch_of(2, 2, 100e9, 0);
  cluster.inter_node.algorithms = {algorithm("pairwise", 0, 0)};
  CHECK(time_of(cluster, Primitive::kAllToAll, first(4), 0, 30'000'000) == Duration(2'000'000'000));
  cluster.intra_node.bandwidth.value = 1e9;  // now the neighbour is slower: 10 ms
  CHECK(time_of(cluster, Primitive::kAllToAll, first(4), 0, 30'000'000) ==
        Duration(10'000'000'000));
}

// Leaves of 2 nodes, 4:1 oversubscribed: 10 GB/s per device below, 2.5 above. At 60 GB/s inside a
// node a ring is faster than the levels one after the other, 4 GB / 40 + 6 GB / 60 = 200 ms in the
// first case, 12 / 20 + 12 / 60 = 800 ms in the second.
TEST_CASE("a ring crosses an oversubscribed tier with the shares of all members below it") {
  Cluster cluster = switch_of(4, 4, 60e9, 0);
  cluster.inter_node.bandwidth.value = 10e9;
  OuterTier leaf;
  leaf.nodes_per_group = 2;
  leaf.link.bandwidth.value = 2.5e9;
  leaf.link.latency.value = 50e-6;
  cluster.outer_tiers = {leaf};
  // One leaf: 4 x 10 GB/s, 7/8 x 8 GB / 40 = 175 ms.
  CHECK(time_of(cluster, Primitive::kAllGather, first(8), 8'000'000'000) ==
        Duration(175'000'000'000));
  // All: min(4 x 10, 8 x 2.5) = 20 GB/s: a ring takes 15/16 x 16 GB / 20 = 750 ms and 15 steps of
  // 50 us; leaf by leaf 8 GB / 20 and inside them 7/8 x 16 GB / 40 are 750 ms too, but one step
  // crosses.
  CHECK(time_of(cluster, Primitive::kAllGather, first(16), 16'000'000'000) ==
        Duration(750'050'000'000));
  // One member per node: min(10, 2 x 2.5): a ring takes 3/4 x 4 GB / 5 = 600 ms and 3 steps of 50
  // us; leaf by leaf 2 GB / 5 and inside them 2 GB / 10 are 600 ms too, but one step crosses.
  CHECK(time_of(cluster, Primitive::kAllGather, ranks({0, 4, 8, 12}), 4'000'000'000) ==
        Duration(600'050'000'000));
  // A transfer has one member's share: 1 GB / 2.5 GB/s.
  CHECK(time_of(cluster, Primitive::kTransfer, ranks({0, 15}), 0, 1'000'000'000) ==
        Duration(400'050'000'000));
}

TEST_CASE("uneven groups go at the pace of the node with the fewest members") {
  Cluster cluster = switch_of(2, 8, 1e12, 0);
  cluster.inter_node.bandwidth.value = 10e9;
  // Three and one: rings have one rail.
  CHECK(time_of(cluster, Primitive::kAllGather, ranks({0, 1, 2, 8}), 4'000'000'000) ==
        Duration(300'000'000'000));
}

TEST_CASE("members of any order take as long, on any cluster") {
  Random random(2);
  for (const Cluster& cluster : many_clusters(2)) {
    const auto network = make_network_model(cluster);
    for (int i = 0; i < 10; ++i) {
      const auto members = random.devices(16, 2 + random.below(15));
      auto sorted = members;
      std::sort(sorted.begin(), sorted.end());
      for (const Primitive primitive : kPrimitives) {
        const std::int64_t bytes = random.size();
        CHECK(time_of(*network, primitive, members, bytes, bytes) ==
              time_of(*network, primitive, sorted, bytes, bytes));
      }
    }
  }
}

// The second list is the first one, moved; or any other, to see that numbers differ where times do.
TEST_CASE("lists with equal places take as long, position by position, on any cluster") {
  Random random(5);
  int alike = 0, different = 0;
  for (const Cluster& cluster : many_clusters(5)) {
    const auto network = make_network_model(cluster);
    for (int i = 0; i < 20; ++i) {
      const std::int64_t distance = random.below(4) * (1 + random.below(4));
      const auto list = random.devices(16 - distance, std::min<std::int64_t>(4, 16 - distance));
      auto moved = list;
      for (Rank& rank : moved) rank = Rank(rank.value + static_cast<std::int32_t>(distance));
      if (network->places_of(list) != network->places_of(moved)) {
        ++different;
        continue;
      }
      alike += distance > 0 ? 1 : 0;
      for (std::uint32_t chosen = 1; chosen < (1U << list.size()); ++chosen) {
        std::vector<Rank> some, same;
        for (std::size_t at = 0; at < list.size(); ++at) {
          if ((chosen >> at & 1U) == 0) continue;
          some.push_back(list[at]);
          same.push_back(moved[at]);
        }
        for (const Primitive primitive : kPrimitives) {
          const std::int64_t bytes = random.size();
          CHECK(time_of(*network, primitive, some, bytes, bytes) ==
                time_of(*network, primitive, same, bytes, bytes));
        }
      }
    }
  }
  CHECK(alike > 0);
  CHECK(different > 0);
}

TEST_CASE("G57: all_reduce is never dearer than reduce_scatter and all_gather, on any cluster") {
  Random random(3);
  for (const Cluster& cluster : many_clusters(3)) {
    const auto network = make_network_model(cluster);
    for (int i = 0; i < 40; ++i) {
      const auto members = random.devices(16, 1 + random.below(16));
      const std::int64_t bytes = random.size();
      CHECK(time_of(*network, Primitive::kAllReduce, members, bytes) <=
            time_of(*network, Primitive::kReduceScatter, members, bytes) +
                time_of(*network, Primitive::kAllGather, members, bytes));
    }
  }
}

// Every number of the cluster by itself, so that no improvement of one hides in another.
TEST_CASE("more bandwidth is never slower, more latency never faster, more bytes never faster") {
  Random random(4);
  for (const Cluster& cluster : many_clusters(4)) {
    const auto members = random.devices(16, 2 + random.below(15));
    const std::int64_t bytes = random.size();
    const auto compare = [&](const Cluster& better) {
      const auto base = make_network_model(cluster), improved = make_network_model(better);
      for (const Primitive primitive : kPrimitives)
        CHECK(time_of(*improved, primitive, members, bytes, bytes) <=
              time_of(*base, primitive, members, bytes, bytes));
    };
    const auto each_link = [](Cluster& of, const auto& change) {
      change(of.intra_node);
      change(of.inter_node);
      for (OuterTier& tier : of.outer_tiers) change(tier.link);
    };
    for (int link = 0; link < 3; ++link) {
      Cluster wider = cluster, nearer = cluster, fitter = cluster;
      int index = 0;
      each_link(wider, [&](NetworkLink& l) { l.bandwidth.value *= index++ == link ? 1.7 : 1; });
      index = 0;
      each_link(nearer, [&](NetworkLink& l) { l.latency.value *= index++ == link ? 0.3 : 1; });
      index = 0;
      each_link(fitter, [&](NetworkLink& l) {
        if (index++ != link) return;
        for (CollectiveAlgorithm& one : l.algorithms) {
          one.efficiency.value *= 1.01;
          one.base_latency.value *= 0.5;
          one.step_latency.value *= 0.5;
          one.own_copy.value *= 0.5;
        }
      });
      compare(wider);
      compare(nearer);
      compare(fitter);
    }
    const auto network = make_network_model(cluster);
    for (const Primitive primitive : kPrimitives) {
      const Duration zero = time_of(*network, primitive, members, 0, 0);
      CHECK(zero >= Duration(0));
      CHECK(zero <= time_of(*network, primitive, members, bytes, bytes));
      CHECK(time_of(*network, primitive, members, bytes, bytes) <=
            time_of(*network, primitive, members, 2 * bytes + 1, 2 * bytes + 1));
      CHECK(time_of(*network, primitive, {members.front()}, bytes, bytes) == Duration(0));
    }
  }
}

TEST_CASE("completions are one duration after the last arrival, the same for all") {
  Random random(5);
  for (const Cluster& cluster : many_clusters(5)) {
    const auto network = make_network_model(cluster);
    for (const Primitive primitive : kPrimitives) {
      Communication communication;
      communication.primitive = primitive;
      const auto members = random.devices(16, 1 + random.below(16));
      CollectiveCost cost;
      cost.communication = &communication;
      cost.members = members;
      cost.global_bytes = cost.largest_volume = Bytes(random.size());
      std::vector<Time> arrivals, done(members.size());
      for (std::size_t i = 0; i < members.size(); ++i)
        arrivals.emplace_back(random.below(1'000'000'000));
      network->complete(cost, arrivals, done);
      const Time last = *std::max_element(arrivals.begin(), arrivals.end());
      for (const Time end : done) CHECK(end == last + network->duration(cost));
    }
  }
}

TEST_CASE("a choice names the algorithm and protocol, and its time is the duration") {
  Random random(6);
  for (const Cluster& cluster : many_clusters(6)) {
    const NcclModel network(cluster);
    for (const Primitive primitive : kPrimitives) {
      Communication communication;
      communication.primitive = primitive;
      const auto members = random.devices(16, 1 + random.below(16));
      CollectiveCost cost;
      cost.communication = &communication;
      cost.members = members;
      cost.global_bytes = cost.largest_volume = Bytes(random.size());
      const CollectiveChoice choice = network.choice(cost);
      CHECK(choice.duration == network.duration(cost));
      CHECK(choice.latency >= Duration(0));
      CHECK(choice.latency <= choice.duration);
      CHECK(!choice.text.empty());
    }
  }
  Cluster cluster = switch_of(1, 8, 100e9, 1e-6);
  cluster.intra_node.algorithms = {algorithm("ring", 1e-6, 1e-6), algorithm("nvls", 50e-6, 0)};
  const NcclModel network(cluster);
  Communication communication;
  communication.primitive = Primitive::kAllReduce;
  const auto members = first(8);
  CollectiveCost cost;
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = Bytes(1000);
  CHECK(network.choice(cost).text == "ring simple");
  cost.global_bytes = Bytes(1'000'000'000);
  CHECK(network.choice(cost).text == "nvls simple");
}

TEST_CASE("algorithms, protocols and primitives that nobody knows are refused by name") {
  const auto refuses = [](CollectiveAlgorithm one, const char* what) {
    Cluster cluster = switch_of(2, 8, 1e9, 0);
    cluster.inter_node.algorithms = {std::move(one)};
    CHECK_THROWS_WITH_AS(make_network_model(cluster), doctest::Contains(what), Error);
  };
  CollectiveAlgorithm protocol = algorithm("ring", 0, 0), primitive = algorithm("tree", 0, 0);
  protocol.protocol = "ll256";
  primitive.primitive = "all_gather";
  refuses(algorithm("rings", 0, 0), "'rings'");
  refuses(protocol, "ll256");
  refuses(primitive, "all_gather");
}

}  // namespace
}  // namespace sextant::nccl_model_test
