// Names of the enumerations of the physical graph, and the boxes of its layouts.
#include "core/graphs/physical_graph.h"

#include "core/base/check.h"

#include <optional>

namespace sextant {
namespace {

std::size_t index_in_placement(const PhysicalGraph& graph, const Layout& layout, Rank rank) {
  const RankBinding& binding = graph.ranks[rank];
  const RankProgram& program = graph.programs[binding.program];
  if (program.placement == layout.placement) return sextant::at(binding.index_in_placement);
  // Another placement that the rank belongs to (rule S1).
  const Placement& placement = graph.placements[layout.placement];
  const std::optional<std::size_t> at = placement.index_of(rank);
  require(at.has_value(), ErrorCode::kInternal,
          "rank {} holds nothing of a layout on {}: it is not a device of that placement",
          rank.value, to_string(placement));
  return *at;
}

}  // namespace

std::string_view to_string(QueueRole role) {
  switch (role) {
    case QueueRole::kCompute:
      return "compute";
    case QueueRole::kCollective:
      return "collective";
    case QueueRole::kTransferOutForward:
      return "transfer_out_forward";
    case QueueRole::kTransferOutBackward:
      return "transfer_out_backward";
    case QueueRole::kTransferInForward:
      return "transfer_in_forward";
    case QueueRole::kTransferInBackward:
      return "transfer_in_backward";
    case QueueRole::kCopyIn:
      return "copy_in";
    case QueueRole::kCopyOut:
      return "copy_out";
    case QueueRole::kHost:
      return "host";
  }
  return "?";
}

std::string_view to_string(MemoryClass memory) {
  switch (memory) {
    case MemoryClass::kParameters:
      return "parameters";
    case MemoryClass::kGradients:
      return "gradients";
    case MemoryClass::kOptimizer:
      return "optimizer";
    case MemoryClass::kActivations:
      return "activations";
    case MemoryClass::kWorkspace:
      return "workspace";
    case MemoryClass::kCommunication:
      return "communication";
  }
  return "?";
}

std::string_view to_string(Region region) {
  switch (region) {
    case Region::kPrivate:
      return "private";
    case Region::kSymmetric:
      return "symmetric";
    case Region::kPinnedHost:
      return "pinned_host";
  }
  return "?";
}

std::string_view to_string(Primitive primitive) {
  switch (primitive) {
    case Primitive::kAllReduce:
      return "all_reduce";
    case Primitive::kAllGather:
      return "all_gather";
    case Primitive::kReduceScatter:
      return "reduce_scatter";
    case Primitive::kAllToAll:
      return "all_to_all";
    case Primitive::kBroadcast:
      return "broadcast";
    case Primitive::kShift:
      return "shift";
    case Primitive::kTransfer:
      return "transfer";
  }
  return "?";
}

std::string_view to_string(Side side) {
  switch (side) {
    case Side::kBoth:
      return "both";
    case Side::kSend:
      return "send";
    case Side::kReceive:
      return "receive";
  }
  return "?";
}

Shard shard_of(const PhysicalGraph& graph, LayoutId layout_id, Rank rank) {
  const Layout& layout = graph.layouts[layout_id];
  const Placement& placement = graph.placements[layout.placement];
  const std::size_t index = index_in_placement(graph, layout, rank);
  return shard_of(layout.global.shape, layout.words, placement.hierarchy(),
                  placement.coordinates_of(index));
}

std::int64_t num_members(const Block& block) {
  std::int64_t members = 0;
  for (const Actor& actor : block.actors) members += std::ssize(actor.members);
  return members;
}

Actor named_actor(const PhysicalGraph& graph, const Instance& instance, std::int32_t actor) {
  const Block& block = graph.block_of(instance);
  Actor named = at(block.actors, actor);
  named.name = graph.actor_name(instance, actor);
  if (instance.names.members.empty()) return named;
  std::size_t first = 0;
  for (std::int32_t before = 0; before < actor; ++before)
    first += at(block.actors, before).members.size();
  for (std::size_t i = 0; i < named.members.size(); ++i)
    named.members[i].name = instance.names.members[first + i];
  return named;
}

}  // namespace sextant
