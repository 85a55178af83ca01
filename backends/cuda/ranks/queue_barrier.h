// How a launch group starts and ends on several in-order queues: all of them wait for all. The byte
// order's proof assumes it (actor/bytes/byte_order). Without CUDA: a list of who waits for whom.
#pragma once

#include "core/graphs/physical_graph.h"

#include <span>
#include <vector>

namespace sextant {

// `waiter` does nothing more before all that is on `awaited` so far is done.
struct QueueWait {
  QueueRole waiter, awaited;
  bool operator==(const QueueWait&) const = default;
};

// To be enqueued in this order: the first queue waits for each other one, then each other one for
// the first. Repeated queues count once.
inline std::vector<QueueWait> barrier_of(std::span<const QueueRole> queues) {
  std::vector<QueueRole> others;
  for (const QueueRole role : queues) {
    bool is_known = role == queues.front();
    for (const QueueRole other : others) is_known = is_known || other == role;
    if (!is_known) others.push_back(role);
  }
  std::vector<QueueWait> waits;
  for (const QueueRole other : others) waits.push_back({queues.front(), other});
  for (const QueueRole other : others) waits.push_back({other, queues.front()});
  return waits;
}

}  // namespace sextant
