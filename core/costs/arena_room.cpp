// The tightest kind of device decides.
#include "core/costs/arena_room.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace sextant {
namespace {

Bytes rounded_up(double bytes) { return Bytes(static_cast<std::int64_t>(std::ceil(bytes))); }

ArenaRoom room_on(const DeviceKind& device) {
  const LibraryMemory& libraries = device.library_memory;
  return {
      device.memory - rounded_up(libraries.context.value) - rounded_up(libraries.workspace.value),
      rounded_up(libraries.communicator.value)};
}

}  // namespace

ArenaRoom arena_room(const Cluster& cluster) {
  ArenaRoom least = room_on(cluster.device);
  for (const OtherDevices& other : cluster.other_devices) {
    const ArenaRoom room = room_on(other.device);
    least.capacity = std::min(least.capacity, room.capacity);
    least.per_communicator = std::max(least.per_communicator, room.per_communicator);
  }
  return least;
}

std::int64_t communicators_of(const PhysicalGraph& graph, Rank rank) {
  std::set<GroupId> groups;
  for (const GroupId id : graph.ranks[rank].groups)
    if (graph.groups[id].ranks.size() > 1) groups.insert(id);
  return static_cast<std::int64_t>(groups.size());
}

}  // namespace sextant
