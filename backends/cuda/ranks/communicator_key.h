// Which communicator a communication uses. Ranks make theirs in the order of keys, so that all of
// them meet in one order. Without CUDA.
#pragma once

#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/graphs/physical_graph.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <vector>

namespace sextant {

// Collectives of equal ranks share one: all are on one queue, in one order. A transfer's sides are
// on different queues, so each group of transfers has its own.
struct CommunicatorKey {
  std::vector<Rank> ranks;  // in group order
  GroupId transfers;        // invalid: of collectives
  auto operator<=>(const CommunicatorKey&) const = default;
};

// Of a communication of the group.
inline CommunicatorKey communicator_key(const PhysicalGraph& graph, GroupId group,
                                        Primitive primitive) {
  const bool is_transfer = primitive == Primitive::kTransfer;
  return {graph.groups[group].ranks, is_transfer ? group : GroupId{}};
}

// What a library of collectives takes of a card per communicator, measured with NCCL 2.28 on H200
// (MiB, by the most blocks that it may use; ../shared/design/11-several-gpus.md, 6): itself 54 and
// 100 for 8 and 16, buffers of rings and those that receive 96 and 192 each. What a rank sends lies
// in the buffers of whoever receives it.
struct CommunicatorUse {
  bool rings = false, receives = false;
};
inline Bytes communicator_bytes(const CommunicatorUse& use, int blocks) {
  const std::int64_t buffers = 12 * ((use.rings ? 1 : 0) + (use.receives ? 1 : 0));
  const std::int64_t mib = 8 + (6 + buffers) * blocks;
  return Bytes(mib << 20);
}

// What computes beside collectives of a rank in one step, what these move over a link meanwhile
// (program_company.h), and what share of all its computation it would wait for them if they went
// slowly.
struct CompanyLoad {
  double seconds = 0, bytes = 0;
  double waiting_share = 0;
};
// Going slowly: 4 blocks, and products beside them cut for the other processors. It pays while both
// have room and nobody waits. Slowly and with 16 blocks, ms of a step on two H200, by the share of
// what is beside that 4 blocks take: GPT-2 xl dp=2 (0.67) 177 and 181, medium dp=2 (0.35) 81.4 and
// 81.6; with a collective per matrix, xl zero=1 (0.41, 6 % of waiting) 205 and 188, 2.7B zero=3
// (0.52, 7 %) 299 and 279. On four, GPT 6.7B zero=3 (0.8) 707 slowly, its collectives under way for
// 665.
inline constexpr int kBlocksInCompany = 4;
inline constexpr double kSlowBytesPerSecond = 82e9;       // of 4 blocks
inline constexpr double kProductFlopsPerSecond = 550e12;  // on the average of a step
inline constexpr double kMemoryBytesPerSecond = 3.5e12;
inline bool goes_slowly(const CompanyLoad& load) {
  constexpr double kMostShare = 0.7, kMostWaiting = 0.01;
  return load.bytes > 0 && load.bytes / kSlowBytesPerSecond <= kMostShare * load.seconds &&
         load.waiting_share <= kMostWaiting;
}

// How many blocks a communicator may take, of `most` that the card has for each. A transfer is on
// the card from the moment that its own side is ready until the other side has come, which in a
// pipeline is most of the time, and computation runs beside it: few blocks. Measured on two H200,
// ms of a step of GPT 2.7B, pp=2 zb-v, 8 micro-batches of 4: 567 with 16 blocks, 543 with 4, 545
// with 2.
inline int blocks_of(const CommunicatorKey& key, bool goes_slowly, int most) {
  return key.transfers.is_valid() || goes_slowly ? std::min(most, kBlocksInCompany) : most;
}

// Parts of one launch group are given to a communicator in this order by all its ranks: launch
// groups may list their members in any order.
struct PartOrder {
  GroupId group;
  std::int64_t occurrence = 0;
  auto operator<=>(const PartOrder&) const = default;
};

}  // namespace sextant
