// The least over all groups that a collective of replicas may run in.
#include "search/bounds/replica_exchange.h"

#include "compiler/order/buckets.h"
#include "compiler/words/key_heads.h"
#include "compiler/words/stage.h"
#include "core/base/at.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sextant {
namespace {

// One stage, whose ranks are its first ones.
Strategy one_stage(const Strategy& strategy, const LogicalGraph& training) {
  Strategy own;
  own.dp = strategy.dp;
  own.tp = strategy.tp;
  own.cp = strategy.cp;
  own.ep = strategy.ep;
  return with_key_heads(own, training);
}

ReplicaTimes larger(const ReplicaTimes& a, const ReplicaTimes& b) {
  return {std::max(a.reduce, b.reduce), std::max(a.gather, b.gather),
          std::max(a.all_reduce, b.all_reduce), std::max(a.reduce_each, b.reduce_each)};
}

}  // namespace

ReplicaTimes& ReplicaTimes::operator+=(const ReplicaTimes& other) {
  reduce += other.reduce;
  gather += other.gather;
  all_reduce += other.all_reduce;
  reduce_each += other.reduce_each;
  return *this;
}

ReplicaExchange::ReplicaExchange(const Strategy& strategy, const LogicalGraph& training,
                                 const NetworkModel& network)
    : network_(network) {
  const Strategy own = one_stage(strategy, training);
  const Placement placement = make_placements(own).front();
  axes_ = axes_of(own);
  const std::vector<std::int64_t> extents = placement.hierarchy();
  for (std::size_t set = 1; set < std::size_t{1} << extents.size(); ++set) {
    Group group;
    bool is_used = true;
    for (std::size_t axis = 0; axis < extents.size(); ++axis) {
      if ((set >> axis & 1) == 0) {
        group.others *= extents[axis];
        continue;
      }
      is_used = is_used && extents[axis] > 1;
      group.axes.push_back(axis);
    }
    if (!is_used) continue;
    for (std::size_t position = 0; position < placement.ranks.size(); ++position) {
      // The last axis is the innermost.
      std::size_t rest = position;
      bool is_member = true;
      for (std::size_t axis = extents.size(); axis-- > 0;) {
        const auto extent = static_cast<std::size_t>(extents[axis]);
        is_member = is_member && ((set >> axis & 1) != 0 || rest % extent == 0);
        rest /= extent;
      }
      if (is_member) group.members.push_back(placement.ranks[position]);
    }
    groups_.push_back(std::move(group));
  }
}

ReplicaTimes ReplicaExchange::times_of(Bytes gradient, Bytes copies, bool is_expert,
                                       bool in_parts) const {
  const ReplicaTimes along_dp = along(axes_.dp, gradient, copies, in_parts);
  if (!axes_.ep || is_expert) return along_dp;
  return larger(along_dp, along(*axes_.ep, gradient, copies, in_parts));
}

ReplicaTimes ReplicaExchange::along(std::size_t axis, Bytes gradient, Bytes copies,
                                    bool in_parts) const {
  const auto whole = std::find_if(groups_.begin(), groups_.end(), [&](const Group& group) {
    return group.axes == std::vector<std::size_t>{axis};
  });
  if (whole == groups_.end()) return {};  // a single replica
  const auto in_bucket = [&](Primitive primitive, Bytes bytes) {
    return least_in_bucket(primitive, bytes, Bytes(BucketLimits().bytes.value * whole->others),
                           axis);
  };
  const auto gather = [&](Bytes bytes) {
    return std::min(in_bucket(Primitive::kAllGather, bytes),
                    in_bucket(Primitive::kAllToAll, bytes));
  };
  ReplicaTimes times;
  times.all_reduce = in_bucket(Primitive::kAllReduce, gradient);
  times.reduce = std::min(in_bucket(Primitive::kReduceScatter, gradient), times.all_reduce);
  times.all_reduce = std::min(times.all_reduce, times.reduce + gather(gradient));
  if (!in_parts) return times;
  times.reduce_each = std::min(least(Primitive::kReduceScatter, gradient, axis),
                               least(Primitive::kAllReduce, gradient, axis));
  if (copies.value > 0) times.gather = gather(copies);
  return times;
}

// A bucket costs one start: its bytes cost least where it is full. Sizes down to that of the tensor
// are tried, for tables of measured times have dents.
Duration ReplicaExchange::least_in_bucket(Primitive primitive, Bytes whole, Bytes limit,
                                          std::size_t axis) const {
  // A smaller part of a bucket is not worth the question.
  constexpr std::int64_t kMostParts = 128;
  if (whole.value * kMostParts < limit.value) return Duration();
  Duration shared = least(primitive, whole, axis);
  for (Bytes size = limit; size > whole; size = Bytes(size.value / 2)) {
    const double part = static_cast<double>(whole.value) / static_cast<double>(size.value);
    const double share = static_cast<double>(least(primitive, size, axis).value) * part;
    shared = std::min(shared, Duration(static_cast<std::int64_t>(share)));
  }
  return shared;
}

Duration ReplicaExchange::least(Primitive primitive, Bytes whole, std::size_t axis) const {
  std::optional<Duration> least;
  Communication communication;
  communication.primitive = primitive;
  for (const Group& group : groups_) {
    if (std::find(group.axes.begin(), group.axes.end(), axis) == group.axes.end()) continue;
    const auto members = static_cast<std::int64_t>(group.members.size());
    const Bytes own = Bytes(whole.value / group.others);
    CollectiveCost cost{.communication = &communication,
                        .members = group.members,
                        .global_bytes = own,
                        .largest_volume = own};
    if (primitive == Primitive::kAllToAll) {
      cost.largest_volume = Bytes(own.value / members * (members - 1));
      cost.global_bytes = cost.largest_volume * members;
    }
    const Duration duration = network_.duration(cost);
    least = least ? std::min(*least, duration) : duration;
  }
  return least.value_or(Duration());
}

}  // namespace sextant
