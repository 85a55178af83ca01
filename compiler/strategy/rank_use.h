// What a strategy makes of a cluster: which devices it leaves idle, and which of its groups cross
// nodes. Arithmetic on ranks alone; what crossing costs, the network model says.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/base/ids.h"
#include "core/costs/cluster.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

// The groups of an axis: ranks that differ in nothing else.
struct AxisReach {
  RankAxis axis = RankAxis::kTp;
  std::int64_t members = 1;   // of a group
  std::int64_t groups = 0;    // of the cluster
  std::int64_t crossing = 0;  // of these, on more than one node
  std::int64_t most_nodes = 1;
  bool operator==(const AxisReach&) const = default;
};

struct RankUse {
  std::int64_t devices = 0;     // of the cluster
  std::vector<Rank> idle;       // of these
  std::vector<AxisReach> axes;  // those with two members or more, from the innermost
};

RankUse rank_use(const Strategy& strategy, const Cluster& cluster);

// "8 of 32 devices are idle: {24-31}"; empty when all have work.
std::string idle_text(const RankUse& use);
// "tp crosses nodes: 1 of 1 groups of 24, over 3 nodes at most"; one line for each axis that does.
std::vector<std::string> crossing_texts(const RankUse& use);

}  // namespace sextant
