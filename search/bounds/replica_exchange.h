// What the replicas of a stage exchange of their parameters and gradients, for bounds: how long the
// queue of collectives is busy with it at least, whatever way boxing goes.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/costs/cost_model.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

// Of the parameters of one layer, or of some.
struct ReplicaTimes {
  // Gradients and copies of parameters that live in parts, as their share of a full bucket
  // (compiler/order/buckets.h) where they may be in one.
  Duration reduce, gather;
  Duration all_reduce;   // of gradients that every replica has whole
  Duration reduce_each;  // in every micro-batch, of what ZeRO has in parts: in no bucket
  ReplicaTimes& operator+=(const ReplicaTimes& other);
  bool operator==(const ReplicaTimes&) const = default;
};

// A tensor whose members are replicas ends as one whole or as parts of it, so some collective runs
// over groups that vary along the axis of the replicas. Along which other axes they vary is for the
// boxing planner to say: all sets of them are looked at, and a tensor counts as split over the
// others.
class ReplicaExchange {
 public:
  // Of the first stage of the strategy, in its first groups. `network` outlives it.
  ReplicaExchange(const Strategy& strategy, const LogicalGraph& training,
                  const NetworkModel& network);

  // `is_expert`: of experts, which ep splits; `in_parts`: large enough for ZeRO.
  ReplicaTimes times_of(Bytes gradient, Bytes copies, bool is_expert, bool in_parts) const;

 private:
  struct Group {
    std::vector<std::size_t> axes;
    std::vector<Rank> members;
    std::int64_t others = 1;  // groups like it in the stage
  };
  Duration least(Primitive primitive, Bytes whole, std::size_t axis) const;
  Duration least_in_bucket(Primitive primitive, Bytes whole, Bytes limit, std::size_t axis) const;
  ReplicaTimes along(std::size_t axis, Bytes gradient, Bytes copies, bool in_parts) const;

  const NetworkModel& network_;
  std::vector<Group> groups_;
  StrategyAxes axes_;
};

}  // namespace sextant
