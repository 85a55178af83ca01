// Device memory that libraries take beside the plan's arena: what a device's LibraryMemory says,
// for the communicators that one rank needs.
#pragma once

#include "core/cluster.h"
#include "core/physical_graph.h"
#include "core/units.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

struct LibraryUse {
  std::string name;  // "context", "2 communicators", "workspace"
  Bytes bytes;
  Provenance provenance = Provenance::kAssumed;
  std::string source;
  bool operator==(const LibraryUse&) const = default;
};

// Groups of more than one rank that the rank communicates in: a communicator each.
std::int64_t communicators_of(const PhysicalGraph& graph, Rank rank);

// Of the rank with most communicators among those whose arena is the largest. What the device says
// nothing about (zero bytes) is left out.
std::vector<LibraryUse> library_memory(const PhysicalGraph& graph, const DeviceKind& device);
Bytes total(const std::vector<LibraryUse>& uses);

}  // namespace sextant
