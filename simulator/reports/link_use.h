// What the links of a cluster carry in one step: bytes, time in use, share of what they could
// carry.
#pragma once

#include "core/base/units.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// Links of one kind that carry as many bytes and are in use as long.
struct LinkUse {
  std::string name;         // of the first of them
  std::string kind;         // their names without numbers: "node*.device*.nvlink*.out"
  std::int64_t links = 1;   // alike
  double capacity_b_s = 0;  // of each, and so is all below
  Bytes bytes;              // in the step
  Duration busy;            // some communication over it had all members there and was not over
  double utilisation = 0;   // bytes / (capacity x step time)
};

struct LinkUses {
  std::vector<LinkUse> used;  // the largest utilisation first
  std::int64_t idle = 0;      // links that nothing loads
  Duration step_time;
  // Some link would carry more than it can while it is busy: its communications are timed as if
  // each had it alone.
  bool is_crowded = false;
};

// Of the last step of a timeline of `graph`, whatever its mode, by the loads that `network` says
// (NetworkModel::demand). Intervals are wrapped around the step: where steps overlap, one ends
// beside the next, and is as long. Folded or not, the rows are the same.
LinkUses link_uses(const PhysicalGraph& graph, const Timeline& timeline,
                   const NetworkModel& network);

}  // namespace sextant
