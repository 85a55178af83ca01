// Joins neighbouring runs of what happens once per step: the updates of a layer each wait for their
// own reduction and would each be a launch, though by then all of these are over. A pass over the
// finished issue order, behind the buckets.
#pragma once

#include "compiler/order/issue_order.h"
#include "compiler/order/run_forms.h"
#include "core/base/stop_poll.h"

namespace sextant {

// Two computing runs become one, at the place of the later, where all of this holds:
// - they are of one instance that acts once per step, the later one's actors follow the earlier
//   one's, and nothing on the compute queue stands between them;
// - nothing between them reads what the earlier writes, or writes what it reads;
// - in modelled time, what the later waits for on other queues is there when the earlier begins,
//   and whoever waits on another queue for the earlier begins no sooner than the later ends.
// So every queue keeps its order of operators, what is computed stays the same, and no operator
// begins later in modelled time. That time is the issue order's own, with the waits for other
// queues of the stage that its compute runs leave out; the step before counts nothing.
void join_runs(IssueOrder& order, const RunForms& forms, const StopPoll& stop = StopPoll());

}  // namespace sextant
