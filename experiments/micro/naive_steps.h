// The single steps that the obvious boxing planner knows: which one makes a change of words, if
// any, and what it costs by listing what goes from device to device.
#pragma once

#include "core/costs/communication_volume.h"
#include "core/costs/cost_model.h"
#include "sbp/boxing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace sextant {

inline std::set<ReduceOp> naive_reductions_of(const NdSbp& words) {
  std::set<ReduceOp> reductions;
  for (const Sbp& word : words)
    if (word.is_partial()) reductions.insert(word.reduce);
  return reductions;
}

// The axes that split `dim`, outermost first.
inline std::vector<std::size_t> naive_order_of(const NdSbp& words, std::size_t dim) {
  std::vector<std::size_t> axes;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_split() && words[axis].dim == dim) axes.push_back(axis);
  std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
    return words[a].nesting < words[b].nesting;
  });
  return axes;
}

class NaiveSteps {
 public:
  struct State {
    bool on_target = false;
    NdSbp words;
  };

  // Borrows the request.
  explicit NaiveSteps(const BoxingRequest& request) : request_(request) {}

  const Placement& placement(bool target) const {
    return target ? *request_.to_placement : *request_.from_placement;
  }

  // Nothing where no single step makes the change.
  std::optional<BoxingStep> step_between(const State& from, const State& to) const {
    BoxingStep step;
    step.from = from.words;
    step.to = to.words;
    step.dtype = step.to_dtype = request_.type.dtype;
    if (from.on_target && !to.on_target) return std::nullopt;  // a plan goes over once
    if (from.on_target == to.on_target) {
      step.where = from.on_target ? BoxingWhere::kTarget : BoxingWhere::kSource;
      return step_inside(std::move(step));
    }
    step.where = BoxingWhere::kBetween;
    const auto before = naive_reductions_of(step.from), after = naive_reductions_of(step.to);
    if (before == after && is_relabel(step)) return step;
    if (!before.empty() && !after.empty() && before != after) return std::nullopt;
    step.kind = BoxingKind::kTransfer;
    step.primitive = Primitive::kTransfer;
    for (const ReduceOp op : before) step.reduce = op;
    for (const ReduceOp op : after) step.reduce = op;
    return step;
  }

 private:
  // Splits may come or go inside the others only.
  bool only_adds_inside(const NdSbp& fewer, const NdSbp& more) const {
    for (std::size_t dim = 0; dim < request_.type.shape.rank(); ++dim) {
      const auto outer = naive_order_of(fewer, dim), all = naive_order_of(more, dim);
      if (outer.size() > all.size() || !std::equal(outer.begin(), outer.end(), all.begin()))
        return false;
    }
    return true;
  }

  // The same devices hold the same box, and the same devices hold the same share.
  bool is_relabel(const BoxingStep& step) const {
    const Placement &source = placement(false), &target = placement(true);
    std::map<Rank, std::pair<Shard, std::vector<std::int64_t>>> held;
    for (std::size_t i = 0; i < source.ranks.size(); ++i)
      held[source.ranks[i]] = held_at(step.from, source, i);
    if (held.size() != target.ranks.size()) return false;
    std::map<std::vector<std::int64_t>, std::vector<std::int64_t>> share, reverse;
    for (std::size_t i = 0; i < target.ranks.size(); ++i) {
      const auto here = held.find(target.ranks[i]);
      if (here == held.end()) return false;
      const auto wanted = held_at(step.to, target, i);
      const auto& [box, before] = here->second;
      if (box != wanted.first) return false;
      if (share.emplace(before, wanted.second).first->second != wanted.second) return false;
      if (reverse.emplace(wanted.second, before).first->second != before) return false;
    }
    return true;
  }

  // Box and share (the place along the partial axes) of a device. Boxes without elements are equal.
  std::pair<Shard, std::vector<std::int64_t>> held_at(const NdSbp& words, const Placement& on,
                                                      std::size_t index) const {
    const std::vector<std::int64_t> coordinates = on.coordinates_of(index);
    Shard box = shard_of(request_.type.shape, words, on.hierarchy(), coordinates);
    for (Interval& dim : box.dims)
      if (dim.extent == 0) dim.offset = 0;
    std::vector<std::int64_t> share;
    for (std::size_t axis = 0; axis < words.size(); ++axis)
      if (words[axis].is_partial() && on.axes[axis].extent > 1) share.push_back(coordinates[axis]);
    return {box, share};
  }

  // At most one step makes a given change, but for the exchange over several axes, the last
  // resort.
  std::optional<BoxingStep> step_inside(BoxingStep step) const {
    const NdSbp &from = step.from, &to = step.to;
    if (from == to) return std::nullopt;
    step.group_axes = changed_axes(from, to);  // none: the nesting alone
    if (is_local(step)) return step;
    step.kind = BoxingKind::kCollective;
    const auto all = [&](const auto& before, const auto& after) {
      return !step.group_axes.empty() &&
             std::all_of(step.group_axes.begin(), step.group_axes.end(),
                         [&](std::size_t axis) { return before(from[axis]) && after(to[axis]); });
    };
    const auto split = [](const Sbp& word) { return word.is_split(); };
    const auto copy = [](const Sbp& word) { return word.is_broadcast(); };
    const auto partial = [](const Sbp& word) { return word.is_partial(); };
    if (all(split, copy) && only_adds_inside(to, from))
      step.primitive = Primitive::kAllGather;
    else if (all(partial, copy) && only_adds_inside(from, to))
      step.primitive = Primitive::kAllReduce;
    else if (all(partial, split) && only_adds_inside(from, to))
      step.primitive = Primitive::kReduceScatter;
    else if ((step.group_axes.size() == 1 && all(split, split) && moves_innermost(step)) ||
             is_exchange(step))
      step.primitive = Primitive::kAllToAll;
    else
      return std::nullopt;
    return step;
  }

  static bool is_same_letter(Sbp a, Sbp b) {
    a.nesting = b.nesting = 0;
    return a == b;
  }
  static std::vector<std::size_t> changed_axes(const NdSbp& from, const NdSbp& to) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      if (!is_same_letter(from[axis], to[axis])) axes.push_back(axis);
    return axes;
  }

  // How many parts the splits around that of `axis` cut, outermost first.
  std::vector<std::int64_t> parts_around(const NdSbp& words, std::size_t axis,
                                         const Placement& on) const {
    std::vector<std::int64_t> parts;
    for (const std::size_t outer : naive_order_of(words, words[axis].dim)) {
      if (outer == axis) break;
      parts.push_back(on.axes[outer].extent);
    }
    return parts;
  }
  // A split that stays cuts the same parts only if the splits around it cut as many.
  bool stays(const BoxingStep& step, std::size_t axis) const {
    const Sbp &from = step.from[axis], &to = step.to[axis];
    if (!is_same_letter(from, to)) return false;
    const Placement& on = placement(step.where == BoxingWhere::kTarget);
    return !from.is_split() || parts_around(step.from, axis, on) == parts_around(step.to, axis, on);
  }

  // Copies may become anything, splits partial, and all else stays.
  bool is_local(const BoxingStep& step) const {
    for (std::size_t axis = 0; axis < step.from.size(); ++axis) {
      const Sbp &from = step.from[axis], &to = step.to[axis];
      const bool fills = from.is_split() && to.is_partial();
      if (!from.is_broadcast() && !fills && !stays(step, axis)) return false;
    }
    return true;
  }

  bool moves_innermost(const BoxingStep& step) const {
    NdSbp without = step.from;
    without[step.group_axes.front()] = Sbp::broadcast();
    return only_adds_inside(without, step.from) && only_adds_inside(without, step.to);
  }

  // Over the axes that do not stay, but for slices, which every device makes for itself. Nothing on
  // them is partial.
  bool is_exchange(BoxingStep& step) const {
    step.group_axes.clear();
    for (std::size_t axis = 0; axis < step.from.size(); ++axis) {
      const bool slices = step.from[axis].is_broadcast() && !step.to[axis].is_partial();
      if (!slices && !stays(step, axis)) step.group_axes.push_back(axis);
    }
    return std::none_of(step.group_axes.begin(), step.group_axes.end(), [&](std::size_t axis) {
      return step.from[axis].is_partial() || step.to[axis].is_partial();
    });
  }

  const BoxingRequest& request_;
};

struct NaiveCost {
  std::int64_t objective = 0, bytes = 0;
  auto operator<=>(const NaiveCost&) const = default;
};

// Slices and fills, on the device with the largest parts.
inline Duration naive_time_alone(const BoxingRequest& request, const BoxingStep& step) {
  if (request.objective != BoxingObjective::kTime || request.cost == nullptr ||
      step.where == BoxingWhere::kBetween)
    return {};
  const Placement& on =
      step.where == BoxingWhere::kTarget ? *request.to_placement : *request.from_placement;
  Duration slowest;
  for (std::size_t device = 0; device < on.ranks.size(); ++device) {
    const auto bytes = [&](const NdSbp& words) {
      const Shard box =
          shard_of(request.type.shape, words, on.hierarchy(), on.coordinates_of(device));
      return size_of(step.dtype) * box.local_shape().elements();
    };
    Work work{.flops = 0, .read = {}, .written = bytes(step.to), .kernel = "copy"};
    work.read = std::min(bytes(step.from), work.written);
    slowest = std::max(slowest, request.cost->duration_on(on.ranks[device], work));
  }
  return slowest;
}

inline Duration naive_time_of(const BoxingRequest& request, const BoxingStep& step) {
  Communication communication;
  communication.primitive = step.primitive;
  communication.reduce = step.reduce;
  communication.dtype = step.dtype;
  const WordsOnPlacement from{&step.from, step.where == BoxingWhere::kTarget
                                              ? request.to_placement
                                              : request.from_placement};
  const WordsOnPlacement to{
      &step.to, step.where != BoxingWhere::kSource ? request.to_placement : request.from_placement};
  Duration slowest;
  for (const auto& members :
       groups_of(step, request.type, *request.from_placement, *request.to_placement)) {
    if (members.size() < 2) continue;
    slowest = std::max(slowest, request.network->duration(collective_cost(
                                    communication, request.type.shape, from, to, members)));
  }
  return slowest;
}

// By the objective of the request; bytes in any case.
inline NaiveCost naive_cost_of(const BoxingRequest& request, BoxingStep step) {
  if (step.kind == BoxingKind::kLocal) return {naive_time_alone(request, step).value, 0};
  if (step.kind == BoxingKind::kCollective)
    for (const std::size_t axis : step.group_axes)
      if (step.from[axis].is_partial()) step.reduce = step.from[axis].reduce;
  NaiveCost cost;
  for (const PairBytes& pair :
       reference_volume(step, request.type, *request.from_placement, *request.to_placement))
    cost.bytes += pair.bytes.value;
  const bool by_time = request.objective == BoxingObjective::kTime && request.network != nullptr;
  cost.objective = by_time ? naive_time_of(request, step).value : cost.bytes;
  return cost;
}

}  // namespace sextant
