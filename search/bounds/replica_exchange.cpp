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

constexpr std::size_t bit(std::size_t axis) { return std::size_t{1} << axis; }

// Of the group of the first rank that varies along the axes. A run of ranks is one step.
CollectiveTimes::Steps steps_of(const Placement& placement, std::size_t axes) {
  const std::vector<std::int64_t> extents = placement.hierarchy();
  CollectiveTimes::Steps steps;  // the innermost first
  std::int64_t stride = 1;       // positions; the last axis is the innermost
  for (std::size_t axis = extents.size(); axis-- > 0; stride *= extents[axis]) {
    if ((axes & bit(axis)) == 0) continue;
    const std::int64_t step = placement.ranks[at(stride)].value - placement.ranks.front().value;
    if (!steps.empty() && step == steps.back().first * steps.back().second)
      steps.back().second *= extents[axis];
    else
      steps.emplace_back(step, extents[axis]);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

ReplicaTimes larger(const ReplicaTimes& a, const ReplicaTimes& b) {
  return {std::max(a.reduce, b.reduce), std::max(a.gather, b.gather),
          std::max(a.all_reduce, b.all_reduce), std::max(a.reduce_each, b.reduce_each)};
}

}  // namespace

CollectiveTimes::Group& CollectiveTimes::group(const Steps& steps) {
  const auto [place, is_new] = groups_.try_emplace(steps);
  if (!is_new) return place->second;
  std::vector<Rank>& members = place->second.members;
  members.emplace_back(0);
  for (const auto& [step, extent] : steps) {
    std::vector<Rank> more;
    more.reserve(members.size() * static_cast<std::size_t>(extent));
    for (const Rank member : members)
      for (std::int64_t i = 0; i < extent; ++i)
        more.emplace_back(static_cast<std::int32_t>(member.value + i * step));
    members = std::move(more);
  }
  return place->second;
}

Duration CollectiveTimes::duration(Primitive primitive, Bytes own, Group& group) const {
  const auto [place, is_new] = group.known.try_emplace({primitive, own});
  if (!is_new) return place->second;
  const auto members = static_cast<std::int64_t>(group.members.size());
  Communication communication;
  communication.primitive = primitive;
  CollectiveCost cost{.communication = &communication,
                      .members = group.members,
                      .global_bytes = own,
                      .largest_volume = own};
  if (primitive == Primitive::kAllToAll) {
    cost.largest_volume = Bytes(own.value / members * (members - 1));
    cost.global_bytes = cost.largest_volume * members;
  }
  place->second = network_.duration(cost);
  return place->second;
}

ReplicaTimes& ReplicaTimes::operator+=(const ReplicaTimes& other) {
  reduce += other.reduce;
  gather += other.gather;
  all_reduce += other.all_reduce;
  reduce_each += other.reduce_each;
  return *this;
}

ReplicaExchange::ReplicaExchange(const Strategy& strategy, const LogicalGraph& training,
                                 CollectiveTimes& times, bool sums_over_cp)
    : times_(times) {
  const Strategy own = one_stage(strategy, training);
  const Placement placement = make_placements(own).front();
  axes_ = axes_of(own);
  if (sums_over_cp && axes_.cp) whole_ = bit(*axes_.cp);
  extents_ = placement.hierarchy();
  for (AxisSet set = 1; set < AxisSet{1} << extents_.size(); ++set) {
    bool is_used = true;
    for (std::size_t axis = 0; axis < extents_.size(); ++axis)
      is_used = is_used && ((set & bit(axis)) == 0 || extents_[axis] > 1);
    if (is_used) groups_.push_back({set, &times.group(steps_of(placement, set))});
  }
}

std::int64_t ReplicaExchange::extent(AxisSet axes) const {
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < extents_.size(); ++axis)
    if ((axes & bit(axis)) != 0) product *= extents_[axis];
  return product;
}

ReplicaTimes ReplicaExchange::times_of(Bytes gradient, Bytes copies, bool is_expert,
                                       bool in_parts) const {
  if (!axes_.ep || is_expert) return along(axes_.dp, whole_, gradient, copies, in_parts);
  // Both axes have replicas of what is no expert's.
  return larger(along(axes_.dp, whole_ | bit(*axes_.ep), gradient, copies, in_parts),
                along(*axes_.ep, whole_ | bit(axes_.dp), gradient, copies, in_parts));
}

ReplicaTimes ReplicaExchange::along(std::size_t axis, AxisSet whole, Bytes gradient, Bytes copies,
                                    bool in_parts) const {
  if (extents_[axis] == 1) return {};  // a single replica
  const AxisSet all = (AxisSet{1} << extents_.size()) - 1;
  const Along at_once{axis, whole, Bytes()};
  const Along in_bucket{axis, whole, Bytes(BucketLimits().bytes.value * extent(all & ~bit(axis)))};
  const Primitives gathers = {Primitive::kAllGather, Primitive::kAllToAll};
  const Primitives reduces = {Primitive::kReduceScatter, Primitive::kAllReduce};
  ReplicaTimes times;
  times.all_reduce = least({Primitive::kAllReduce}, reduces, gradient, in_bucket);
  times.reduce = least(reduces, reduces, gradient, in_bucket);
  times.all_reduce =
      std::min(times.all_reduce, times.reduce + least(gathers, gathers, gradient, in_bucket));
  if (!in_parts) return times;
  times.reduce_each = least(reduces, reduces, gradient, at_once);
  if (copies.value > 0) times.gather = least(gathers, gathers, copies, in_bucket);
  return times;
}

Duration ReplicaExchange::least(const Primitives& primitives, const Primitives& beside, Bytes whole,
                                const Along& along) const {
  std::optional<Duration> least;
  for (const Group& group : groups_) {
    if ((group.axes & bit(along.axis)) == 0) continue;
    const AxisSet all = (AxisSet{1} << extents_.size()) - 1, others = all & ~group.axes;
    // Each set of the axes that hold it whole may be split over while the group exchanges.
    const AxisSet may_be_split = others & along.whole;
    for (AxisSet split = may_be_split;; split = (split - 1) & may_be_split) {
      Duration more;
      for (std::size_t other = 0; other < extents_.size(); ++other)
        if ((split & bit(other)) != 0 && extents_[other] > 1)
          more = std::max(more, least_beside(beside, whole, along, other));
      const std::int64_t parts = extent((others & ~along.whole) | split);
      const Duration sum = share(primitives, whole, group, parts, along.bucket) + more;
      least = least ? std::min(*least, sum) : sum;
      if (split == 0) break;
    }
  }
  return least.value_or(Duration());
}

// A collective along another axis while the axis of the replicas is still, or is already, whole.
Duration ReplicaExchange::least_beside(const Primitives& primitives, Bytes whole,
                                       const Along& along, std::size_t other) const {
  std::optional<Duration> least;
  for (const Group& group : groups_) {
    if ((group.axes & bit(other)) == 0 || (group.axes & bit(along.axis)) != 0) continue;
    const AxisSet all = (AxisSet{1} << extents_.size()) - 1;
    const std::int64_t parts = extent(all & ~group.axes & ~bit(along.axis));
    const Duration own = share(primitives, whole, group, parts, along.bucket);
    least = least ? std::min(*least, own) : own;
  }
  return least.value_or(Duration());
}

// A bucket costs one start: its bytes cost least where it is full. Sizes down to that of the tensor
// are tried, for tables of measured times have dents.
Duration ReplicaExchange::share(const Primitives& primitives, Bytes whole, const Group& group,
                                std::int64_t parts, Bytes bucket) const {
  // A smaller part of a bucket is not worth the question.
  constexpr std::int64_t kMostParts = 128;
  if (whole.value * kMostParts < bucket.value) return Duration();
  std::optional<Duration> least;
  for (const Primitive primitive : primitives) {
    const auto take = [&](Duration time) { least = least ? std::min(*least, time) : time; };
    take(times_.duration(primitive, Bytes(whole.value / parts), *group.times));
    for (Bytes size = bucket; size > whole; size = Bytes(size.value / 2)) {
      const double part = static_cast<double>(whole.value) / static_cast<double>(size.value);
      const Duration full = times_.duration(primitive, Bytes(size.value / parts), *group.times);
      take(Duration(static_cast<std::int64_t>(static_cast<double>(full.value) * part)));
    }
  }
  return least.value_or(Duration());
}

}  // namespace sextant
