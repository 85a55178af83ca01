// What the wiring of a link (core/costs/cluster.h) lets a group of its ends have when nobody else
// uses it: devices of a node, or nodes of a group of nodes.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <span>

namespace sextant {

// Rates are shares of NetworkLink::bandwidth, which is what one end sends over all its lanes.
struct WiringFit {
  double ring = 1;    // that rings through all members reach together
  double spread = 1;  // of a member that sends equally to all others while they do, too
  double pair = 1;    // of the worst pair of members
  double hops = 1;    // links that a step of the ring passes, at most
  double pair_hops = 1;
  // Dependent steps of a reduce_scatter or an all_gather: members - 1, fewer where rings of several
  // dimensions share the work.
  double steps = 0;
  bool operator==(const WiringFit&) const = default;
};

// The worst of both.
WiringFit worse_of(const WiringFit& a, const WiringFit& b);

// Of members at `positions` (sorted, at least one) out of `ends`.
//   switch           all shares are 1
//   fully connected  k members reach (k-1) of the (ends-1) lanes of each: ring = spread =
//                    (k-1)/(ends-1), pair = 1/(ends-1)
//   ring             two rings in opposite directions, through ends that are no members
//   torus            members that are a product of positions per dimension use rings of all
//                    dimensions at once, each through ends that are no members; others one ring, in
//                    order of position, shortest ways
//   cables           as many rings as the cables among members hold without sharing a lane; where
//                    there is none, one ring over shortest ways
// Throws Error(kBadInput) where no way leads from a member to another.
WiringFit fit_of(const NetworkLink& link, std::int64_t ends,
                 std::span<const std::int32_t> positions);

// Whether fit_of depends on positions, or on their number alone.
bool depends_on_positions(Wiring wiring);

}  // namespace sextant
