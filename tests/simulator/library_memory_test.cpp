// What libraries hold beside the arena.
#include "simulator/costs/library_memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <utility>

namespace sextant::library_memory_test {
namespace {

// Two ranks with arenas of 10 and 20 bytes, the second in two groups of two and one of its own.
PhysicalGraph two_ranks() {
  PhysicalGraph graph;
  graph.programs.resize(2);
  graph.programs[ProgramId(0)].arena.size = Bytes(10);
  graph.programs[ProgramId(1)].arena.size = Bytes(20);
  graph.groups.resize(3);
  graph.groups[GroupId(0)].ranks = {Rank(0), Rank(1)};
  graph.groups[GroupId(1)].ranks = {Rank(1), Rank(0)};
  graph.groups[GroupId(2)].ranks = {Rank(1)};
  graph.ranks.resize(2);
  graph.ranks[Rank(0)] = {.program = ProgramId(0), .groups = {GroupId(0)}};
  // A group in two roles is one communicator.
  graph.ranks[Rank(1)] = {.program = ProgramId(1),
                          .groups = {GroupId(0), GroupId(1), GroupId(2), GroupId(0)}};
  return graph;
}

TEST_CASE("each group of several ranks is a communicator, whatever its roles") {
  CHECK(communicators_of(two_ranks(), Rank(0)) == 1);
  CHECK(communicators_of(two_ranks(), Rank(1)) == 2);
}

DeviceKind device_with(std::int64_t memory) {
  DeviceKind device;
  device.memory = Bytes(memory);
  device.library_memory.context = {100, Provenance::kMeasured, "here"};
  device.library_memory.communicator = {7, Provenance::kAssumed, "guess"};
  return device;
}

// 100 + 2 x 7; no workspace is said.
TEST_CASE("libraries hold their parts once, and NCCL once per communicator") {
  const auto uses = library_memory(device_with(0), 2);
  REQUIRE(uses.size() == 2);
  CHECK(uses[0] == LibraryUse{"context", Bytes(100), Provenance::kMeasured, "here"});
  CHECK(uses[1] == LibraryUse{"2 communicators", Bytes(14), Provenance::kAssumed, "guess"});
  CHECK(total(uses) == Bytes(114));
  CHECK(to_text(uses) == "context 100 B, 2 communicators 14 B");
  CHECK(library_memory(DeviceKind(), 2).empty());
}

// 20 + 114 on the second rank, 10 + 107 on the first.
TEST_CASE("a plan fits when arena and libraries do, on the device with least room") {
  Cluster cluster;
  cluster.devices_per_node = 2;
  cluster.device = device_with(134);
  const DeviceMemory memory = device_memory(two_ranks(), cluster);
  CHECK(memory.arena == Bytes(20));
  CHECK(memory.program == ProgramId(1));
  CHECK(memory.needed() == Bytes(134));
  CHECK(memory.fits());
  cluster.device.memory = Bytes(133);
  CHECK_FALSE(device_memory(two_ranks(), cluster).fits());
}

// Equal arenas: the rank with more communicators has less room, whichever comes first.
TEST_CASE("communicators tell devices of equal arenas apart") {
  PhysicalGraph graph = two_ranks();
  graph.programs[ProgramId(0)].arena.size = Bytes(20);
  Cluster cluster;
  cluster.devices_per_node = 2;
  cluster.device = device_with(1000);
  CHECK(device_memory(graph, cluster).needed() == Bytes(134));
  std::swap(graph.ranks[Rank(0)], graph.ranks[Rank(1)]);
  CHECK(device_memory(graph, cluster).needed() == Bytes(134));
}

// 20 + 107 of 130 leave 3, 10 + 107 of 118 leave 1.
TEST_CASE("where devices differ, the tightest one decides") {
  PhysicalGraph graph = two_ranks();
  graph.ranks[Rank(1)].groups = {GroupId(0)};
  Cluster cluster;
  cluster.nodes = 2;
  cluster.device = device_with(118);
  cluster.other_devices.push_back({.first_node = 1, .num_nodes = 1, .device = device_with(130)});
  CHECK(device_memory(graph, cluster).program == ProgramId(0));
  CHECK(device_memory(graph, cluster).fits());
}

}  // namespace
}  // namespace sextant::library_memory_test
