// The data movement of one communication, once all its members are there: ring and pairwise
// algorithms over the members' buffers. No threads and no waiting; those are in rendezvous.h.
#pragma once

#include "core/communication_volume.h"
#include "core/physical_graph.h"

#include <cstddef>
#include <span>

namespace sextant {

// What one member brings: its buffers and the boxes of the global tensor they hold.
struct MemberBuffers {
  const std::byte* in = nullptr;  // nullptr: this member receives only
  std::byte* out = nullptr;       // nullptr: this member sends only
  bool accumulate = false;        // add to what `out` holds
};

struct CollectiveCall {
  const PhysicalGraph* graph = nullptr;
  const Communication* communication = nullptr;
  std::span<const Rank> ranks;             // group order
  std::span<const MemberBuffers> members;  // as many
};

// Moves and reduces; adds to `traffic` what each hop carried. Order of reduction:
// - reduce_scatter and all_reduce: the part of member c is ((x[c+1] op x[c+2]) op ...) op x[c],
//   indices modulo the group, as the ring passes it on;
// - all_to_all and transfers of partial values: by position in the group, onto the neutral element.
void run_collective(const CollectiveCall& call, Traffic& traffic);

}  // namespace sextant
