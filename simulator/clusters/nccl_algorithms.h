// Closed forms of the ways in which a library can run a collective over a group: seconds from what
// a link says of the algorithm (core/costs/cluster.h) and where the members lie. Nothing is chosen
// here.
#pragma once

#include "core/costs/cluster.h"
#include "core/graphs/physical_graph.h"
#include "simulator/clusters/group_shape.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

enum class Algorithm : std::uint8_t { kRing, kDirect, kTree, kNvls, kHierarchical, kPairwise };

std::string_view to_string(Algorithm algorithm);
// Throws Error(kBadInput) naming those there are.
Algorithm parse_algorithm(std::string_view name);
bool can_run(Algorithm algorithm, Primitive primitive);

// One way, its numbers taken from the links that a group uses: those of a group inside a node from
// intra_node alone; of a group that spans nodes base, remote step and remote efficiency from
// inter_node, and the rest from the entry of the same name and protocol of intra_node, or, without
// one, from its latency and efficiency.
struct Way {
  Algorithm algorithm = Algorithm::kRing;
  std::string protocol;
  double base = 0;                          // s
  double local_step = 0, local_rate = 0;    // s, B/s of one member
  double remote_step = 0, remote_rate = 0;  // s, B/s of one member
  double own_copy = 0;                      // of the time of one part
  std::array<double, kMaxOuterTiers> tier_steps = {}, tier_rates = {};
  double remote_most = 0;  // B/s of all members of a node together; 0: whatever their links carry
};

// What is sent.
struct CollectiveSize {
  double global = 0;   // B, of the tensor that is global to the group
  double largest = 0;  // B, of all_to_all and transfers: the most of one member
};

struct Seconds {
  double latency = 0;  // whatever the size
  double total = 0;
};

// Nothing where the algorithm cannot run over such a group: hierarchical inside one node or over
// nodes with unequal numbers of members, nvls between nodes with one member each.
//
// With n members, N nodes, k members per node (the fewest), B the rate of rings inside nodes and b
// that of one member between nodes, as the wiring leaves them; R = min(B, k b, tiers) between
// nodes, and no more than what the members of a node reach together:
//   ring          (n-1) steps, (n-1+c) S / (n R); twice that for all_reduce (c once); the steps
//                 that leave a node pay the remote latency. broadcast: (n-1) steps, S / R
//   direct        one step, all pairs at once: (k-1) S / (n B) inside nodes, (n-k) S / (n b)
//   between tree          all_reduce: 2 (k-1) local and 2 log2 N remote steps; each member sends
//   and
//                 receives S up and S down its chain, a node S per tree edge: 2 S / B and
//                 2 S / (k b) at once, S / (k b) between two nodes
//   nvls          the switch adds and copies: 2 steps, (1 + (1+c)/k) S / B; between nodes a tree of
//                 S / k per member: 2 log2 N remote steps and 2 S / (k b), S / (k b) between two;
//                 half of that for reduce_scatter and all_gather, which it runs in one node only
//   hierarchical  reduce_scatter in each node, across nodes over k rails, all_gather in each node
//   pairwise      (n-1) steps, V of one member to all others; transfers and shifts one step
std::optional<Seconds> seconds_of(const Way& way, Primitive primitive, const GroupShape& shape,
                                  const CollectiveSize& size);

// alpha-beta: what links without algorithms are timed by, the fastest of a ring, level by level
// (hierarchical) and pairwise, over the latency and the bandwidth x efficiency of the links.
using PlainWays = std::array<Way, 3>;
PlainWays plain_ways(const Way& links);
Seconds plain_seconds(const PlainWays& plain, Primitive primitive, const GroupShape& shape,
                      const CollectiveSize& size);

}  // namespace sextant
