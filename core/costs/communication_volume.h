// Which bytes a communication moves between its members: one rule for the planner, the simulator
// and the kernels that copy. What the ring primitives send is defined in sbp/README.md, "Volumes".
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/placement.h"
#include "core/tensors/sbp.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// One side of a communication: words of the tensor on the mesh that holds them.
struct WordsOnPlacement {
  const NdSbp* words = nullptr;
  const Placement* placement = nullptr;
};

// What a rank holds of a layout; nothing outside its placement, as on the other side of a transfer.
Shard held_box(const PhysicalGraph& graph, const Layout& layout, Rank rank);

// The reduction that the copies of a layout wait for; one copy waits for none.
std::optional<ReduceOp> pending_reduction(const PhysicalGraph& graph, const Layout& layout);

// A box of global indices that `destination` needs from `source`, both positions in the group's
// members. `source == destination`: it holds the box already and nothing moves.
struct BoxMove {
  std::int32_t source = 0;
  std::int32_t destination = 0;
  Shard box;
  bool operator==(const BoxMove&) const = default;
};

// Moves of an all_to_all or a transfer that end at members, sorted by destination, then by source;
// the rule is that of Moves (core/tensors/mesh_boxes.h) and knows nothing of groups, so a group
// must hold all that its members take from. Where the source has several shares, a destination may
// get the same box from several members, to be reduced; a destination under partial words that gets
// nothing starts from the neutral element.
std::vector<BoxMove> box_moves(const Shape& global, WordsOnPlacement from, WordsOnPlacement to,
                               std::span<const Rank> members);

// Bytes that go from device to device.
struct PairBytes {
  Rank source, destination;
  Bytes bytes;
  bool operator==(const PairBytes&) const = default;
};

// Collected over communications, by (source, destination).
using Traffic = std::map<std::pair<Rank, Rank>, Bytes>;
std::vector<PairBytes> pairs_of(const Traffic& traffic);  // sorted, zero entries left out

// Adds what the communication sends from member to member: all_reduce, all_gather and
// reduce_scatter as rings in group order, a shift as one step of one, a broadcast as a chain, the
// others pairwise.
void add_traffic(const Communication& communication, const Shape& global, WordsOnPlacement from,
                 WordsOnPlacement to, std::span<const Rank> members, Traffic& traffic);
void add_traffic(const PhysicalGraph& graph, const Communication& communication,
                 std::span<const Rank> members, Traffic& traffic);

// Sizes of one communication for any of its groups: what all groups share is worked out once.
class CollectiveSizes {
 public:
  // Borrows the communication, the words and the placements.
  CollectiveSizes(const Communication& communication, const Shape& global, WordsOnPlacement from,
                  WordsOnPlacement to);
  CollectiveSizes(const PhysicalGraph& graph, const Communication& communication);
  ~CollectiveSizes();
  CollectiveSizes(CollectiveSizes&&) noexcept;

  // Of a group with these members, in group order.
  CollectiveCost of(std::span<const Rank> members) const;

 private:
  struct Sides;
  const Communication* communication_;
  std::unique_ptr<const Sides> sides_;
};

// Sizes of a communication as the models want them (core/costs/cost_model.h).
CollectiveCost collective_cost(const Communication& communication, const Shape& global,
                               WordsOnPlacement from, WordsOnPlacement to,
                               std::span<const Rank> members);
CollectiveCost collective_cost(const PhysicalGraph& graph, const Communication& communication,
                               std::span<const Rank> members);

// Of a run that launches a communication. In a launch group, communications with the same queue,
// group and primitive are one bucket: the first carries the sizes of all, the others none, so that
// what the links carry is counted once and the start of the network as well.
CollectiveCost launched_cost(const PhysicalGraph& graph, ProgramId program, RunId run,
                             std::span<const Rank> members);

}  // namespace sextant
