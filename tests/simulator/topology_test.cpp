// Links and ways of every wiring, drawn by hand.

#include "simulator/links/topology.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <set>

namespace sextant::topology_test {
namespace {

NetworkLink link_of(std::string name, double bandwidth, Wiring wiring) {
  NetworkLink link;
  link.name = std::move(name);
  link.bandwidth.value = bandwidth;
  link.wiring = wiring;
  return link;
}

Cluster cluster_of(std::int64_t nodes, std::int64_t devices, Wiring wiring) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.devices_per_node = devices;
  cluster.intra_node = link_of("nvlink", 120, wiring);
  cluster.inter_node = link_of("ib", 10, Wiring::kSwitch);
  return cluster;
}

std::vector<std::string> way(const Topology& topology, int from, int to) {
  std::vector<std::int32_t> links;
  topology.route(Rank(from), Rank(to), links);
  std::vector<std::string> names;
  for (const std::int32_t link : links)
    names.push_back(topology.links()[static_cast<std::size_t>(link)].name);
  return names;
}

using Names = std::vector<std::string>;

double capacity(const Topology& topology, const std::string& name) {
  for (const SharedLink& link : topology.links())
    if (link.name == name) return link.bytes_per_second;
  FAIL("no link " << name);
  return 0;
}

TEST_CASE("a switch has a port out and a port in per device, nodes meet through NIC shares") {
  const Topology topology(cluster_of(2, 4, Wiring::kSwitch));
  CHECK(topology.links().size() == 2 * 8 + 2 * 8);
  CHECK(way(topology, 1, 3) == Names{"node0.device1.nvlink.out", "node0.device3.nvlink.in"});
  CHECK(way(topology, 1, 6) == Names{"node0.device1.ib.out", "node1.device2.ib.in"});
  CHECK(capacity(topology, "node1.device2.ib.in") == 10);
  CHECK(capacity(topology, "node1.device2.nvlink.out") == 120);
}

TEST_CASE("all pairs divide the bandwidth among the peers") {
  const Topology topology(cluster_of(1, 4, Wiring::kFullyConnected));
  CHECK(topology.links().size() == 12);
  CHECK(way(topology, 3, 1) == Names{"node0.device3-1.nvlink"});
  CHECK(capacity(topology, "node0.device3-1.nvlink") == 40);
}

TEST_CASE("rings go the shorter way round, tori dimension by dimension") {
  const Topology ring(cluster_of(1, 5, Wiring::kRing));
  CHECK(way(ring, 0, 2) ==
        Names{"node0.device0.nvlink.dim0.next", "node0.device1.nvlink.dim0.next"});
  CHECK(way(ring, 1, 4) ==
        Names{"node0.device1.nvlink.dim0.previous", "node0.device0.nvlink.dim0.previous"});
  CHECK(capacity(ring, "node0.device1.nvlink.dim0.previous") == 60);
  Cluster cluster = cluster_of(1, 12, Wiring::kTorus);
  cluster.intra_node.extents = {3, 2, 2};
  const Topology torus(cluster);
  // Two links of the first dimension, one of each of the others.
  CHECK(torus.links().size() == 12 * 4);
  CHECK(capacity(torus, "node0.device0.nvlink.dim1.next") == 30);
  // 2 = (2, 0, 0) to 9 = (0, 1, 1): round the border, then up in both other dimensions.
  CHECK(way(torus, 2, 9) == Names{"node0.device2.nvlink.dim0.next",
                                  "node0.device0.nvlink.dim1.next",
                                  "node0.device3.nvlink.dim2.next"});
}

// The cube mesh of a DGX-1: two quads with double and single lanes, and a double cable across.
Cluster dgx1() {
  Cluster cluster = cluster_of(1, 8, Wiring::kCables);
  cluster.intra_node.cables = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                               {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                               {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  return cluster;
}

TEST_CASE("cables are taken the fewest first, then the widest") {
  const Topology topology(dgx1());
  CHECK(capacity(topology, "node0.device0-3.nvlink") == 40);  // two of six lanes of 120
  CHECK(way(topology, 3, 0) == Names{"node0.device3-0.nvlink"});
  // 0 to 5 over 1 (one lane, then two) or over 4 (two, then one): equal, one of them.
  CHECK(way(topology, 0, 5).size() == 2);
  // 2 to 7 over 6 (1, 2) or 3 (2, 1); 0 to 7 over 4 (2, 2) rather than 3 (2, 1).
  CHECK(way(topology, 0, 7) == Names{"node0.device0-4.nvlink", "node0.device4-7.nvlink"});
  Cluster apart = dgx1();
  apart.intra_node.cables = {{0, 1, 1}, {2, 3, 1}};
  CHECK_THROWS_WITH_AS(Topology{apart}, "link 'nvlink': no cables lead from end 0 to end 2", Error);
}

TEST_CASE("groups of nodes share what leads out of them, from the inside out") {
  Cluster cluster = cluster_of(6, 2, Wiring::kSwitch);
  cluster.outer_tiers = {{2, link_of("leaf", 5, Wiring::kSwitch)},
                         {4, link_of("pod", 1, Wiring::kSwitch)}};
  const Topology topology(cluster);
  CHECK(way(topology, 0, 2) == Names{"node0.device0.ib.out", "node1.device0.ib.in"});
  CHECK(way(topology, 0, 5) ==
        Names{"node0.device0.ib.out", "leaf0.up", "leaf1.down", "node2.device1.ib.in"});
  CHECK(way(topology, 0, 9) == Names{"node0.device0.ib.out", "leaf0.up", "leaf2.down", "pod0.up",
                                     "pod1.down", "node4.device1.ib.in"});
  CHECK(capacity(topology, "leaf0.up") == 20);  // four devices
  CHECK(capacity(topology, "pod1.down") == 4);  // the last pod has two nodes
}

TEST_CASE("nodes may be wired as a torus themselves") {
  Cluster cluster = cluster_of(9, 4, Wiring::kSwitch);
  cluster.inter_node.wiring = Wiring::kTorus;
  cluster.inter_node.extents = {3, 3};
  const Topology topology(cluster);
  CHECK(way(topology, 0, 4 * 4) == Names{"node0.device0.ib.out", "node0.ib.dim0.next",
                                         "node1.ib.dim1.next", "node4.device0.ib.in"});
  CHECK(capacity(topology, "node0.ib.dim0.next") == 10);  // four devices over four links
  cluster.inter_node.extents = {3, 2};
  CHECK_THROWS_WITH_AS(Topology{cluster}, "link 'ib': a torus of 6 ends for 9", Error);
}

TEST_CASE("link names differ in every wiring") {
  for (const Wiring wiring : {Wiring::kSwitch, Wiring::kFullyConnected, Wiring::kRing}) {
    Cluster cluster = cluster_of(3, 4, wiring);
    cluster.inter_node.wiring = wiring;
    cluster.outer_tiers = {{2, link_of("leaf", 5, Wiring::kSwitch)}};
    const Topology topology(cluster);
    std::set<std::string> names;
    for (const SharedLink& link : topology.links()) {
      names.insert(link.name);
      CHECK(link.bytes_per_second > 0);
    }
    CHECK(names.size() == topology.links().size());
  }
}

}  // namespace
}  // namespace sextant::topology_test
