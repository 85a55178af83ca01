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
#include <map>
#include <utility>
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

// What collectives take in groups that begin with rank 0, remembered: meshes that have other axes
// have many of these groups in common, and a group of thousands is no short list.
class CollectiveTimes {
 public:
  // `network` outlives it.
  explicit CollectiveTimes(const NetworkModel& network) : network_(network) {}

  // Steps between members and how many there are of each, the outermost first.
  using Steps = std::vector<std::pair<std::int64_t, std::int64_t>>;
  struct Group {
    std::vector<Rank> members;
    std::map<std::pair<Primitive, Bytes>, Duration> known;
  };
  // Stays where it is.
  Group& group(const Steps& steps);
  // `own`: of all members of the group together.
  Duration duration(Primitive primitive, Bytes own, Group& group) const;

 private:
  const NetworkModel& network_;
  std::map<Steps, Group> groups_;
};

// A tensor whose members are replicas ends as one whole or as parts of it, so some collective runs
// over groups that vary along the axis of the replicas. Along which other axes they vary is for the
// boxing planner to say: all sets of them are looked at, and a tensor counts as split over the
// others. On axes where readers want it whole, or where a sum is owed, that takes a collective of
// its own: behind the last one along the replicas, or before the first one.
class ReplicaExchange {
 public:
  // Of the first stage of the strategy, in its first groups. `times` outlives it. `sums_over_cp`:
  // gradients owe a sum over cp, and parameters are read whole there.
  ReplicaExchange(const Strategy& strategy, const LogicalGraph& training, CollectiveTimes& times,
                  bool sums_over_cp);

  // `is_expert`: of experts, which ep splits; `in_parts`: large enough for ZeRO.
  ReplicaTimes times_of(Bytes gradient, Bytes copies, bool is_expert, bool in_parts) const;

 private:
  using AxisSet = std::size_t;  // a bit each
  struct Group {
    AxisSet axes = 0;
    CollectiveTimes::Group* times = nullptr;
  };
  // What is asked: `axis` of the replicas, and the axes that hold the tensor whole besides.
  struct Along {
    std::size_t axis = 0;
    AxisSet whole = 0;
    Bytes bucket;  // the most; zero: in no bucket
  };
  // The cheapest of several, and what may be beside it on another axis.
  using Primitives = std::vector<Primitive>;
  std::int64_t extent(AxisSet axes) const;
  Duration least(const Primitives& primitives, const Primitives& beside, Bytes whole,
                 const Along& along) const;
  Duration least_beside(const Primitives& primitives, Bytes whole, const Along& along,
                        std::size_t other) const;
  Duration share(const Primitives& primitives, Bytes whole, const Group& group, std::int64_t parts,
                 Bytes bucket) const;
  ReplicaTimes along(std::size_t axis, AxisSet whole, Bytes gradient, Bytes copies,
                     bool in_parts) const;

  CollectiveTimes& times_;
  std::vector<std::int64_t> extents_;  // of the mesh of a stage
  std::vector<Group> groups_;
  StrategyAxes axes_;
  AxisSet whole_ = 0;  // beside replicas
};

}  // namespace sextant
