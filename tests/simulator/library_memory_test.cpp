// What libraries hold beside the arena.
#include "simulator/library_memory.h"

#include <doctest/doctest.h>

namespace sextant {
namespace {

// Two ranks with arenas of 10 and 20 bytes, the second in two groups of two and one of its own.
PhysicalGraph two_ranks() {
  PhysicalGraph graph;
  graph.programs.resize(2);
  graph.programs[0].arena.size = Bytes(10);
  graph.programs[1].arena.size = Bytes(20);
  graph.groups.resize(3);
  graph.groups[0].ranks = {Rank(0), Rank(1)};
  graph.groups[1].ranks = {Rank(1), Rank(0)};
  graph.groups[2].ranks = {Rank(1)};
  graph.ranks.resize(2);
  graph.ranks[0] = {.program = ProgramId(0), .groups = {GroupId(0)}};
  // A group in two roles is one communicator.
  graph.ranks[1] = {.program = ProgramId(1),
                    .groups = {GroupId(0), GroupId(1), GroupId(2), GroupId(0)}};
  return graph;
}

TEST_CASE("each group of several ranks is a communicator, whatever its roles") {
  CHECK(communicators_of(two_ranks(), Rank(0)) == 1);
  CHECK(communicators_of(two_ranks(), Rank(1)) == 2);
}

// 100 + 2 x 7; no workspace is said.
TEST_CASE("libraries hold their parts once, and NCCL once per communicator") {
  DeviceKind device;
  device.library_memory.context = {100, Provenance::kMeasured, "here"};
  device.library_memory.communicator = {7, Provenance::kAssumed, "guess"};
  const auto uses = library_memory(two_ranks(), device);
  REQUIRE(uses.size() == 2);
  CHECK(uses[0] == LibraryUse{"context", Bytes(100), Provenance::kMeasured, "here"});
  CHECK(uses[1] == LibraryUse{"2 communicators", Bytes(14), Provenance::kAssumed, "guess"});
  CHECK(total(uses) == Bytes(114));
  CHECK(library_memory(two_ranks(), DeviceKind()).empty());
}

}  // namespace
}  // namespace sextant
