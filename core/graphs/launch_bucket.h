// Which communications of a launch group are one bucket: they have one cost together
// (core/costs/communication_volume.h).
#pragma once

#include "core/graphs/physical_graph.h"

namespace sextant {

// `a` communicates; `b` is an actor of the same launch group.
inline bool share_bucket(const Actor& a, const Actor& b) {
  return a.queue == b.queue && b.communication &&
         a.communication->group == b.communication->group &&
         a.communication->primitive == b.communication->primitive;
}

}  // namespace sextant
