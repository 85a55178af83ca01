// Where the time of a simulated step goes, operator by operator.
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "core/graphs/work.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// One operator of all layers and micro-batches, summed over the ranks of the graph.
struct OperatorUse {
  std::string name;  // of the logical operator: "attention.q"
  std::string kind;
  QueueRole queue = QueueRole::kCompute;
  Phase phase = Phase::kForward;
  std::int64_t acts = 0;
  // Of a kernel, its part of its launch. Of a communication, from the last arrival to the end.
  Duration time;
  Duration waiting;  // of communications: from the begin to the last arrival
  Flops flops = 0;
  Bytes bytes;  // read and written
};

// Of the last step, the longest first. A launch of several kernels is shared among them in
// proportion to what `cost` says of each, so times of kernels add up to those of launches.
std::vector<OperatorUse> operator_uses(const PhysicalGraph& graph, const Timeline& timeline,
                                       const CostModel& cost);

}  // namespace sextant
