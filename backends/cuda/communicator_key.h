// Which communicator a communication uses. Ranks make theirs in the order of keys, so that all of
// them meet in one order. Without CUDA.
#pragma once

#include "core/ids.h"
#include "core/physical_graph.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <vector>

namespace sextant {

// Collectives of equal ranks share one: all are on one queue, in one order. A transfer's sides are
// on different queues, so each group of transfers has its own.
struct CommunicatorKey {
  std::vector<Rank> ranks;  // in group order
  GroupId transfers;        // invalid: of collectives
  auto operator<=>(const CommunicatorKey&) const = default;
};

inline CommunicatorKey communicator_key(const PhysicalGraph& graph, GroupId group,
                                        Primitive primitive) {
  const bool is_transfer = primitive == Primitive::kTransfer;
  return {graph.groups[group.index()].ranks, is_transfer ? group : GroupId{}};
}

// What a library of collectives takes of a card per communicator, measured with NCCL 2.28 on H200
// (MiB, by the most blocks that it may use; ../shared/design/11-several-gpus.md, 6): itself 54 and
// 100 for 8 and 16, buffers of rings and those of sends and receives 96 and 192 each.
struct CommunicatorUse {
  bool rings = false, pairs = false;
};
inline Bytes communicator_bytes(const CommunicatorUse& use, int blocks) {
  const std::int64_t buffers = 12 * ((use.rings ? 1 : 0) + (use.pairs ? 1 : 0));
  const std::int64_t mib = 8 + (6 + buffers) * blocks;
  return Bytes(mib << 20);
}

// Parts of one launch group are given to a communicator in this order by all its ranks: launch
// groups may list their members in any order.
struct PartOrder {
  GroupId group;
  std::int64_t occurrence = 0;
  auto operator<=>(const PartOrder&) const = default;
};

}  // namespace sextant
