// When the runs of one stage begin and end in modelled time if its queues wait for each other,
// which the issue order leaves out where collectives lag behind: compute runs have its times as if
// all reductions were over.
#pragma once

#include "compiler/order/issue_order.h"
#include "compiler/order/run_forms.h"

#include <span>
#include <vector>

namespace sextant {

struct RunTimes {
  Time begin, end;
};

// By position in the order. A run begins behind what its queue has and what it reads; transfers,
// which wait for other stages, no sooner than the order says. Members of a launch group begin and
// end together. The step before counts nothing.
std::vector<RunTimes> order_times(std::span<const OrderedRun> stage, const RunForms& forms);

}  // namespace sextant
