// The queues that runs are launched on: tables by queue that are joined for every launch have no
// place for the host's.
#pragma once

#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <algorithm>
#include <cstddef>

namespace sextant {

inline constexpr std::size_t kNumLaunchQueues = static_cast<std::size_t>(QueueRole::kHost);
static_assert(kNumLaunchQueues + 1 == kNumQueueRoles, "host actors are never in the issue order");

// The queues of the issue order.
inline constexpr Range<QueueRole> kLaunchQueues = Range<QueueRole>::first(kNumLaunchQueues);
// One value for each of them.
template <typename Value>
using ByLaunchQueue = FixedTable<QueueRole, Value, kNumLaunchQueues>;

// Leaves in `into` the larger of both values of each queue. It goes by element and not by queue: a
// loop over the values of an enum of 8 bits becomes no vectors.
template <typename Value>
void join_largest(ByLaunchQueue<Value>& into, const ByLaunchQueue<Value>& other) {
  std::transform(into.begin(), into.end(), other.begin(), into.begin(),
                 [](Value a, Value b) { return a < b ? b : a; });
}

}  // namespace sextant
