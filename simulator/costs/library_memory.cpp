// Counts groups, multiplies, leaves zeros out; the tightest device is found rank by rank.
#include "simulator/costs/library_memory.h"

#include "core/text/counted_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace sextant {
namespace {

void add(std::vector<LibraryUse>& uses, std::string name, const Sourced& each, std::int64_t count) {
  const auto bytes =
      static_cast<std::int64_t>(std::llround(each.value * static_cast<double>(count)));
  if (bytes == 0) return;
  uses.push_back({std::move(name), Bytes(bytes), each.provenance, each.source});
}

}  // namespace

std::vector<LibraryUse> library_memory(const DeviceKind& device, std::int64_t communicators) {
  std::vector<LibraryUse> uses;
  add(uses, "context", device.library_memory.context, 1);
  add(uses, counted(communicators, "communicator"), device.library_memory.communicator,
      communicators);
  add(uses, "workspace", device.library_memory.workspace, 1);
  return uses;
}

Bytes total(const std::vector<LibraryUse>& uses) {
  Bytes sum;
  for (const LibraryUse& use : uses) sum += use.bytes;
  return sum;
}

std::string to_text(const std::vector<LibraryUse>& uses) {
  std::string text;
  for (const LibraryUse& use : uses)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", use.name, to_text(use.bytes));
  return text;
}

DeviceMemory device_memory(const PhysicalGraph& graph, const Cluster& cluster) {
  std::vector<Bytes> arenas;
  for (const RankProgram& program : graph.programs) arenas.push_back(program.arena.size);
  return device_memory(graph, arenas, cluster);
}

DeviceMemory device_memory(const PhysicalGraph& graph, std::span<const Bytes> arenas,
                           const Cluster& cluster) {
  DeviceMemory least;
  std::optional<Bytes> room;
  for (const Rank rank : graph.ranks.keys()) {
    const DeviceKind& device = cluster.device_of(rank);
    const Bytes arena = arenas[graph.ranks[rank].program.index()];
    // Most ranks are out before anything is counted.
    const Bytes most_room = device.memory - arena;
    const std::int64_t roles = static_cast<std::int64_t>(graph.ranks[rank].groups.size());
    const double most_libraries =
        device.library_memory.context.value + device.library_memory.workspace.value +
        device.library_memory.communicator.value * static_cast<double>(roles);
    if (room &&
        static_cast<double>(most_room.value) - most_libraries >= static_cast<double>(room->value))
      continue;
    std::vector<LibraryUse> libraries = library_memory(device, communicators_of(graph, rank));
    const Bytes left = most_room - total(libraries);
    if (room && left >= *room) continue;
    room = left;
    least = {arena, device.memory, graph.ranks[rank].program, std::move(libraries)};
  }
  return least;
}

}  // namespace sextant
