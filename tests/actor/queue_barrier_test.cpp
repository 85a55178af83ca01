// Launch groups on streams: what is enqueued is the fork and the join that the byte order assumes.
// Queues are in order here as streams are, and know what they waited for.
#include "backends/cuda/ranks/queue_barrier.h"

#include <doctest/doctest.h>

#include <array>
#include <set>
#include <vector>

namespace sextant::queue_barrier_test {
namespace {

// What each queue knows to be done when its next entry starts.
using Known = std::array<std::set<QueueRole>, kNumQueueRoles>;

Known after_barrier(const std::vector<QueueRole>& queues) {
  Known known;
  for (const QueueRole role : queues) known[static_cast<std::size_t>(role)] = {role};
  for (const QueueWait& wait : barrier_of(queues)) {
    const std::set<QueueRole>& awaited = known[static_cast<std::size_t>(wait.awaited)];
    known[static_cast<std::size_t>(wait.waiter)].insert(awaited.begin(), awaited.end());
  }
  return known;
}

TEST_CASE("behind a barrier every queue of a launch group knows what every other one did") {
  using enum QueueRole;
  for (const std::vector<QueueRole>& queues :
       {std::vector<QueueRole>{kCollective, kTransferOutForward},
        {kTransferInBackward, kCollective, kTransferOutForward},
        {kCollective, kTransferOutForward, kCollective, kTransferInForward, kTransferInBackward}}) {
    const Known known = after_barrier(queues);
    const std::set<QueueRole> all(queues.begin(), queues.end());
    for (const QueueRole role : queues) CHECK(known[static_cast<std::size_t>(role)] == all);
  }
}

TEST_CASE("a queue waits neither for itself nor twice for another, and one queue alone for none") {
  using enum QueueRole;
  CHECK(barrier_of(std::vector{kCollective}).empty());
  CHECK(barrier_of(std::vector{kCollective, kCollective}).empty());
  const std::vector<QueueWait> waits =
      barrier_of(std::vector{kCollective, kTransferOutForward, kCollective, kTransferOutForward});
  CHECK(waits == std::vector<QueueWait>{{kCollective, kTransferOutForward},
                                        {kTransferOutForward, kCollective}});
}

}  // namespace
}  // namespace sextant::queue_barrier_test
