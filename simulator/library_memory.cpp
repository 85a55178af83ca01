// Counts groups, multiplies, leaves zeros out.
#include "simulator/library_memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace sextant {
namespace {

void add(std::vector<LibraryUse>& uses, std::string name, const Sourced& each, std::int64_t count) {
  const auto bytes =
      static_cast<std::int64_t>(std::llround(each.value * static_cast<double>(count)));
  if (bytes == 0) return;
  uses.push_back({std::move(name), Bytes(bytes), each.provenance, each.source});
}

}  // namespace

std::int64_t communicators_of(const PhysicalGraph& graph, Rank rank) {
  const RankBinding& binding = graph.ranks[rank.index()];
  std::set<GroupId> groups;
  for (const GroupId id : binding.groups)
    if (graph.groups[id.index()].ranks.size() > 1) groups.insert(id);
  return static_cast<std::int64_t>(groups.size());
}

std::vector<LibraryUse> library_memory(const PhysicalGraph& graph, const DeviceKind& device) {
  Bytes largest;
  for (const RankProgram& program : graph.programs) largest = std::max(largest, program.arena.size);
  std::int64_t communicators = 0;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    const Rank at(static_cast<std::int32_t>(rank));
    if (graph.program_of(at).arena.size == largest)
      communicators = std::max(communicators, communicators_of(graph, at));
  }
  std::vector<LibraryUse> uses;
  add(uses, "context", device.library_memory.context, 1);
  add(uses, fmt::format("{} communicator{}", communicators, communicators == 1 ? "" : "s"),
      device.library_memory.communicator, communicators);
  add(uses, "workspace", device.library_memory.workspace, 1);
  return uses;
}

Bytes total(const std::vector<LibraryUse>& uses) {
  Bytes sum;
  for (const LibraryUse& use : uses) sum += use.bytes;
  return sum;
}

}  // namespace sextant
