// Demands of a tape's communications on shared links, as the solver wants them.
#pragma once

#include "actor/tapes/tape.h"
#include "core/base/table.h"
#include "core/costs/cost_model.h"
#include "simulator/links/link_classes.h"
#include "simulator/links/max_min.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Of a communication that lasts `latency` and then, at its full rate, moves bytes.
struct LinkDemand {
  Duration latency;
  double full_rate = 0;         // B/s on the link that it loads most
  std::vector<FlowLoad> loads;  // bytes on a link per byte on that one; none: never contends
};

struct LinkDemands {
  std::vector<double> capacities;  // by link, B/s
  std::vector<LinkDemand> distinct;
  Table<MeetingId, std::int32_t> of_meeting;  // in `distinct`
};

// Without classes of links, every group for itself; with them, one link of each class, loaded by
// all groups that a meeting stands for.
LinkDemands link_demands(const PhysicalGraph& graph, const Tape& tape, const NetworkModel& network,
                         const LinkClasses* classes);

}  // namespace sextant
