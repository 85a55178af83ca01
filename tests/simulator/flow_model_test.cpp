// What collectives load: bytes by hand, and the law that alone they run at their full rate.

#include "simulator/links/flow_model.h"

#include "core/costs/communication_volume.h"
#include "core/graphs/primitives.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <map>
#include <numeric>

namespace sextant::flow_model_test {
namespace {

constexpr double kMega = 1e6;

CollectiveCost cost_of(const Communication& communication, std::span<const Rank> members,
                       std::int64_t bytes, std::int64_t largest = 0) {
  CollectiveCost cost;
  cost.communication = &communication;
  cost.members = members;
  cost.global_bytes = Bytes(bytes);
  cost.largest_volume = Bytes(largest);
  return cost;
}

Communication communication_of(Primitive primitive) {
  Communication communication;
  communication.primitive = primitive;
  return communication;
}

std::vector<Rank> ranks(const std::vector<int>& numbers) {
  return std::vector<Rank>(numbers.begin(), numbers.end());
}

std::map<std::string, double> loads_by_name(const NetworkModel& network,
                                            const CollectiveCost& cost) {
  NetworkDemand demand;
  network.demand(cost, demand);
  std::map<std::string, double> loads;
  for (const LinkLoad& load : demand.loads)
    loads[network.links()[static_cast<std::size_t>(load.link)].name] = load.bytes;
  CHECK(loads.size() == demand.loads.size());
  return loads;
}

TEST_CASE("an all_reduce in a node sends 2 (n-1)/n of the tensor through every port") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=2");
  const auto network = make_flow_network(cluster, make_alpha_beta(cluster));
  const Communication all_reduce = communication_of(Primitive::kAllReduce);
  const auto members = ranks({0, 2, 3, 7});
  const auto loads =
      loads_by_name(*network, cost_of(all_reduce, members, std::int64_t{80'000'000}));
  CHECK(loads.size() == 8);
  for (const auto& [name, bytes] : loads) CHECK(bytes == doctest::Approx(120 * kMega));
  CHECK(loads.contains("node0.device7.nvlink4.in"));
}

// Members 0, 1 of node 0 and 8, 9 of node 1: X = 3/4 S. Two rings of X/2 cross, inside a node one
// hop of each ring stays: X/2 per member. At 60 GB/s inside a node no other way is faster: both
// levels one after the other take S/2 / 2 through a port and S/2 through NVLink, 0.4 + 0.67 ms
// beside 0.6.
TEST_CASE("between nodes as many rings run as the nodes have members") {
  Cluster cluster = load_cluster("dgx-h100:nodes=2");
  cluster.intra_node.bandwidth.value = 60e9;
  const auto network = make_flow_network(cluster, make_alpha_beta(cluster));
  const Communication all_gather = communication_of(Primitive::kAllGather);
  const auto members = ranks({0, 1, 8, 9});
  const auto loads =
      loads_by_name(*network, cost_of(all_gather, members, std::int64_t{80'000'000}));
  CHECK(loads.size() == 16);
  CHECK(loads.at("node0.device0.ib-ndr.out") == doctest::Approx(30 * kMega));
  CHECK(loads.at("node1.device1.ib-ndr.in") == doctest::Approx(30 * kMega));
  CHECK(loads.at("node1.device0.nvlink4.out") == doctest::Approx(30 * kMega));
}

TEST_CASE("a transfer loads the way from its sender to its receiver only") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=2");
  const auto network = make_flow_network(cluster, make_alpha_beta(cluster));
  const Communication transfer = communication_of(Primitive::kTransfer);
  const auto members = ranks({9, 3});
  const auto loads = loads_by_name(
      *network, cost_of(transfer, members, std::int64_t{1'000'000}, std::int64_t{1'000'000}));
  CHECK(loads.size() == 2);
  CHECK(loads.at("node1.device1.ib-ndr.out") == doctest::Approx(kMega).epsilon(1e-6));
  CHECK(loads.at("node0.device3.ib-ndr.in") == doctest::Approx(kMega).epsilon(1e-6));
}

// Six pairs of members each way, 12 MB: 1 MB per ordered pair. Member 0 sends two of its three to
// the other node.
TEST_CASE("an all_to_all sends what it moves between all pairs alike") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=2");
  const auto network = make_flow_network(cluster, make_alpha_beta(cluster));
  const Communication all_to_all = communication_of(Primitive::kAllToAll);
  const auto members = ranks({0, 1, 8, 9});
  const auto loads = loads_by_name(
      *network, cost_of(all_to_all, members, std::int64_t{12'000'000}, std::int64_t{3'000'000}));
  CHECK(loads.size() == 16);
  CHECK(loads.at("node0.device0.ib-ndr.out") == doctest::Approx(2 * kMega));
  CHECK(loads.at("node0.device0.nvlink4.in") == doctest::Approx(1 * kMega));
}

Cluster wired(Wiring wiring) {
  Cluster cluster = load_cluster("dgx-a100:nodes=4");
  cluster.intra_node.algorithms.clear();  // alpha-beta fills links to their efficiency
  cluster.inter_node.algorithms.clear();
  cluster.intra_node.wiring = wiring;
  cluster.intra_node.extents = {4, 2};
  for (std::int32_t end = 0; end < 8; ++end)
    cluster.intra_node.cables.push_back({end, (end + 1) % 8, 1 + end % 2});
  cluster.outer_tiers.resize(1);
  cluster.outer_tiers[0].nodes_per_group = 2;
  cluster.outer_tiers[0].link = cluster.inter_node;
  cluster.outer_tiers[0].link.name = "leaf";
  cluster.outer_tiers[0].link.bandwidth.value /= 3;
  return cluster;
}

TEST_CASE("alone no collective asks more of a link than it carries, in any wiring") {
  std::int64_t full = 0, links = 0;
  for (const Wiring wiring :
       {Wiring::kSwitch, Wiring::kFullyConnected, Wiring::kRing, Wiring::kTorus, Wiring::kCables}) {
    const Cluster cluster = wired(wiring);
    const auto network = make_flow_network(cluster, make_alpha_beta(cluster));
    for (const Primitive primitive : kPrimitives) {
      const Communication communication = communication_of(primitive);
      for (const auto& numbers : std::vector<std::vector<int>>{
               {0, 1}, {3, 20}, {0, 1, 2, 3, 4, 5, 6, 7}, {0, 8, 16, 24}, {1, 2, 5, 9, 31, 12}}) {
        const auto members = ranks(numbers);
        for (const std::int64_t bytes :
             {std::int64_t{0}, std::int64_t{1000}, std::int64_t{1} << 30}) {
          const CollectiveCost cost = cost_of(communication, members, bytes, bytes);
          NetworkDemand demand;
          network->demand(cost, demand);
          const Duration all = network->duration(cost);
          CHECK(demand.latency <= all);
          CHECK(demand.loads.empty() == (bytes == 0));
          for (const LinkLoad& load : demand.loads) {
            const double most =
                network->links()[static_cast<std::size_t>(load.link)].bytes_per_second *
                to_seconds(all - demand.latency);
            CHECK(load.bytes > 0);
            CHECK(load.bytes <= most * (1 + 1e-12));
            full += load.bytes >= most * 0.999 ? 1 : 0;
            ++links;
          }
        }
      }
    }
  }
  CHECK(full > links / 4);  // most are bounded by some link
}

TEST_CASE("sixteen thousand devices cost nothing until somebody asks for their links") {
  const Cluster cluster = load_cluster("dgx-h100:nodes=2048");
  const auto network = make_flow_network(cluster, make_alpha_beta(cluster));
  CHECK(network->links().size() == 4 * 16384);
  std::vector<Rank> members(16384);
  for (std::size_t i = 0; i < members.size(); ++i) members[i] = Rank(i);
  const Communication all_reduce = communication_of(Primitive::kAllReduce);
  NetworkDemand demand;
  network->demand(cost_of(all_reduce, members, std::int64_t{1} << 30), demand);
  CHECK(demand.loads.size() == 4 * 16384);
}

}  // namespace
}  // namespace sextant::flow_model_test
