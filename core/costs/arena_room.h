// What an arena may take of a device, beside the libraries that are there too.
#pragma once

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/costs/cluster.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>

namespace sextant {

// What the arena of a device may grow to.
struct ArenaRoom {
  Bytes capacity;          // beside what every rank needs; negative where that is more than all
  Bytes per_communicator;  // less for each group of several ranks that a rank is in
  bool operator==(const ArenaRoom&) const = default;
};

// On every device of the cluster: of each kind the least that is left, and the most per group.
ArenaRoom arena_room(const Cluster& cluster);

// Groups of more than one rank that the rank communicates in: a communicator each.
std::int64_t communicators_of(const PhysicalGraph& graph, Rank rank);

}  // namespace sextant
