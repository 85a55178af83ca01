// How often operators of a training graph act.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/phase.h"

#include <vector>

namespace sextant {

// By OpId: an operator acts once per step when it updates state, belongs to the optimizer, sinks
// sums of the step, or reads nothing that a micro-batch makes. Sources on the host deliver
// micro-batches and act for each.
std::vector<Rate> rates_of(const LogicalGraph& training);

}  // namespace sextant
