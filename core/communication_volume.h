// Which bytes a communication moves between its members: one rule for the planner, the network
// model and the kernels that copy. Ring algorithms move parts of equal size and need no boxes.
#pragma once

#include "core/cost_model.h"
#include "core/physical_graph.h"
#include "core/placement.h"
#include "core/sbp.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// One side of a communication: words of the tensor on the mesh that holds them.
struct WordsOnPlacement {
  const NdSbp* words = nullptr;
  const Placement* placement = nullptr;
};

// A box of global indices that `destination` needs from `source`, both positions in the group's
// members. `source == destination`: it holds the box already and nothing moves.
struct BoxMove {
  std::int32_t source = 0;
  std::int32_t destination = 0;
  Shard box;
  bool operator==(const BoxMove&) const = default;
};

// Moves of an all_to_all or a transfer, sorted by destination, then by source. A destination takes
// each part from itself if it can; of several replicas, from the one whose position among them is
// the destination's position among the destinations modulo their number. Parts of partial values
// come from every partial copy, to be reduced by the destination. Under partial words of `to` only
// members at the first member's place on those axes receive; the others start from the neutral
// element. A partial axis on which all members agree is no matter between them.
std::vector<BoxMove> box_moves(const Shape& global, WordsOnPlacement from, WordsOnPlacement to,
                               std::span<const Rank> members);

// Sizes of a communication as the models want them (core/cost_model.h).
CollectiveCost collective_cost(const Communication& communication, const Shape& global,
                               WordsOnPlacement from, WordsOnPlacement to,
                               std::span<const Rank> members);
CollectiveCost collective_cost(const PhysicalGraph& graph, const Communication& communication,
                               std::span<const Rank> members);

}  // namespace sextant
