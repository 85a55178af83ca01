// Device memory that libraries take beside the plan's arena: what a device's LibraryMemory says,
// for the communicators that one rank needs.
#pragma once

#include "core/base/units.h"
#include "core/costs/arena_room.h"
#include "core/costs/cluster.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>
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

// What libraries hold on a device whose rank has so many communicators. What the device says
// nothing about (zero bytes) is left out.
std::vector<LibraryUse> library_memory(const DeviceKind& device, std::int64_t communicators);
Bytes total(const std::vector<LibraryUse>& uses);
std::string to_text(const std::vector<LibraryUse>& uses);  // "context 500 MiB, workspace 32 MiB"

// What a plan takes on the device that it leaves least room on, arena and libraries.
struct DeviceMemory {
  Bytes arena, capacity;
  ProgramId program;
  std::vector<LibraryUse> libraries;

  Bytes needed() const { return arena + total(libraries); }
  bool fits() const { return needed() <= capacity; }
};
DeviceMemory device_memory(const PhysicalGraph& graph, const Cluster& cluster);
// The same with other sizes of arenas than the graph's, by program.
DeviceMemory device_memory(const PhysicalGraph& graph, std::span<const Bytes> arenas,
                           const Cluster& cluster);

}  // namespace sextant
