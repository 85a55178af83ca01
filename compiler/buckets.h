// Bucket fusion: small collectives that follow each other start together and cost one launch of the
// network. A pass over the finished issue order; the numbers moved and reduced stay the same.
#pragma once

#include "compiler/groups.h"
#include "compiler/issue_order.h"
#include "compiler/moved_sizes.h"
#include "compiler/partition.h"
#include "compiler/stop_poll.h"
#include "core/cost_model.h"
#include "core/units.h"

#include <cstdint>

namespace sextant {

// Limits of one bucket; zero in either turns fusion off. Defaults: small enough to hide nothing of
// the backward pass, large enough that its start costs a few percent on the links of today.
struct BucketLimits {
  Bytes bytes{std::int64_t{16} << 20};  // of the tensors as their groups see them
  std::int32_t operations = 64;
  bool operator==(const BucketLimits&) const = default;
};

// Collectives of one stage join a bucket where all of this holds:
// - they act once per step, over the same mesh axes, with the same primitive;
// - no other collective stands between them;
// - nothing between them reads what an earlier member writes or makes what one reads, and nothing
//   between them belongs to the instance of one;
// - together they stay within the limits;
// - in modelled time, the bucket is over no later than its members would be one by one: what the
//   first waits for the last is no more than the starts of the network that are saved.
// The members become one launch group at the place of the last of them: every rank of the stage
// moves the same entries in the same way, so the result is again a cut of one global order. Stops
// between two stages.
void fuse_buckets(IssueOrder& order, const Partition& partition, const GroupTable& groups,
                  const NetworkModel& network, MovedSizes& sizes, const BucketLimits& limits,
                  const StopPoll& stop = StopPoll());

}  // namespace sextant
