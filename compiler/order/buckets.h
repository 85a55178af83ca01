// Bucket fusion: collectives that follow each other start together and cost one launch of the
// network. A pass over the finished issue order; the numbers moved and reduced stay the same.
#pragma once

#include "compiler/order/groups.h"
#include "compiler/order/issue_order.h"
#include "compiler/order/moved_sizes.h"
#include "compiler/order/run_forms.h"
#include "core/base/stop_poll.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"

#include <cstdint>

namespace sextant {

// Limits of one bucket; zero in either turns fusion off. Defaults: what a layer of some billion
// parameters reduces, so that a collective takes processors from what computes beside it, and waits
// for its peers, once per layer and not once per matrix.
struct BucketLimits {
  Bytes bytes{std::int64_t{128} << 20};  // of the tensors as their groups see them
  std::int32_t operations = 64;
  bool operator==(const BucketLimits&) const = default;
};

// Collectives of one stage join a bucket where all of this holds:
// - they act once per step, or gather for one act what a micro-batch does not make (ZeRO 3), over
//   the same mesh axes, with the same primitive;
// - no other collective stands between them;
// - nothing between them reads what an earlier member writes or makes what one reads, and nothing
//   between them belongs to the instance of one;
// - together they stay within the limits;
// - in modelled time (order_times.h), nobody waits longer than without it: it is over before any
//   reader of a member on another queue begins, and before the collective behind it has to begin.
//   Or starts are saved where all wait anyway: it is over no later than its members one by one
//   and, where these are read one by one (gathers), earlier by what readers of the first wait.
// The members become one launch group at the place of the last of them: every rank of the stage
// moves the same entries in the same way, so the result is again a cut of one global order. Stops
// between two stages.
void fuse_buckets(IssueOrder& order, const RunForms& forms, const GroupTable& groups,
                  const NetworkModel& network, MovedSizes& sizes, const BucketLimits& limits,
                  const StopPoll& stop = StopPoll());

}  // namespace sextant
