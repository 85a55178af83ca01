// The obvious boxing planner, to compare with: Dijkstra's search over words as vectors, told apart
// by their text, on one placement. Every pair of words is tried as a step, every step is costed by
// listing what goes from device to device.
#pragma once

#include "core/communication_volume.h"
#include "core/cost_model.h"
#include "sbp/boxing.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

struct NaiveCost {
  std::int64_t objective = 0, bytes = 0;
  auto operator<=>(const NaiveCost&) const = default;
};

class NaiveBoxing {
 public:
  // Only requests on one placement, without change of the element type.
  explicit NaiveBoxing(const BoxingRequest& request) : request_(request) {
    for (const Sbp& word : request.to)
      if (word.is_partial()) reductions_.insert(word.reduce);
    for (const Sbp& word : request.from)
      if (word.is_partial()) reductions_.insert(word.reduce);
    if (reductions_.empty())
      reductions_.insert(ReduceOp::kSum);  // a way there may pass through one
    NdSbp words;
    list_states(words);
  }

  NaiveCost cost() const {
    std::map<std::string, NaiveCost> best = {{to_string(canonical(request_.from)), {}}};
    std::set<std::string> settled;
    while (true) {
      std::optional<std::string> nearest;
      for (const auto& [text, cost] : best)
        if (settled.count(text) == 0 && (!nearest || cost < best.at(*nearest))) nearest = text;
      if (!nearest || *nearest == to_string(canonical(request_.to))) break;
      settled.insert(*nearest);
      const NdSbp from = parse_nd_sbp(*nearest);
      for (const NdSbp& to : states_) {
        const std::optional<BoxingStep> step = step_between(from, to);
        if (!step) continue;
        const NaiveCost own = cost_of(*step), before = best.at(*nearest);
        const NaiveCost total{before.objective + own.objective, before.bytes + own.bytes};
        const auto [known, is_new] = best.emplace(to_string(to), total);
        if (!is_new) known->second = std::min(known->second, total);
      }
    }
    return best.at(to_string(canonical(request_.to)));
  }

 private:
  const Placement& placement() const { return *request_.from_placement; }

  // All words with every nesting order of the splits of a dim, in canonical form.
  void list_states(NdSbp& words) {
    const std::size_t axes = placement().axes.size();
    if (words.size() == axes) return list_nestings(words, 0);
    std::vector<Sbp> letters = {Sbp::broadcast()};
    if (placement().axes[words.size()].extent > 1) {
      for (std::size_t dim = 0; dim < request_.type.shape.rank(); ++dim)
        letters.push_back(Sbp::split(dim));
      for (const ReduceOp op : reductions_) letters.push_back(Sbp::partial(op));
    }
    for (const Sbp& letter : letters) {
      words.push_back(letter);
      list_states(words);
      words.pop_back();
    }
  }
  void list_nestings(NdSbp words, std::size_t dim) {
    if (dim == request_.type.shape.rank()) {
      states_.push_back(canonical(words));
      return;
    }
    std::vector<std::size_t> axes = order_of(words, dim);
    std::sort(axes.begin(), axes.end());
    do {
      for (std::size_t i = 0; i < axes.size(); ++i)
        words[axes[i]].nesting = static_cast<std::uint8_t>(axes.size() < 2 ? 0 : i + 1);
      list_nestings(words, dim + 1);
    } while (std::next_permutation(axes.begin(), axes.end()));
  }

  // The axes that split `dim`, outermost first.
  static std::vector<std::size_t> order_of(const NdSbp& words, std::size_t dim) {
    std::vector<std::size_t> axes;
    for (std::size_t axis = 0; axis < words.size(); ++axis)
      if (words[axis].is_split() && words[axis].dim == dim) axes.push_back(axis);
    std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
      return words[a].nesting < words[b].nesting;
    });
    return axes;
  }

  // Splits may come or go inside the others only.
  bool only_adds_inside(const NdSbp& fewer, const NdSbp& more) const {
    for (std::size_t dim = 0; dim < request_.type.shape.rank(); ++dim) {
      const auto outer = order_of(fewer, dim), all = order_of(more, dim);
      if (outer.size() > all.size() || !std::equal(outer.begin(), outer.end(), all.begin()))
        return false;
    }
    return true;
  }

  // README of sbp/, "Steps": at most one of them makes a given change, but for the exchange over
  // all axes, which is the last resort.
  std::optional<BoxingStep> step_between(const NdSbp& from, const NdSbp& to) const {
    BoxingStep step;
    step.from = from;
    step.to = to;
    step.dtype = step.to_dtype = request_.type.dtype;
    step.group_axes = changed_axes(from, to);
    if (step.group_axes.empty()) return std::nullopt;
    if (is_local(step)) return step;
    step.kind = BoxingKind::kCollective;
    const auto all = [&](const auto& before, const auto& after) {
      return std::all_of(step.group_axes.begin(), step.group_axes.end(),
                         [&](std::size_t axis) { return before(from[axis]) && after(to[axis]); });
    };
    const auto split = [](const Sbp& word) { return word.is_split(); };
    const auto copy = [](const Sbp& word) { return word.is_broadcast(); };
    const auto partial = [](const Sbp& word) { return word.is_partial(); };
    if (all(split, copy) && only_adds_inside(to, from))
      step.primitive = Primitive::kAllGather;
    else if (all(partial, copy))
      step.primitive = Primitive::kAllReduce;
    else if (all(partial, split) && only_adds_inside(from, to))
      step.primitive = Primitive::kReduceScatter;
    else if (step.group_axes.size() == 1 && all(split, split) && moves_innermost(step))
      step.primitive = Primitive::kAllToAll;
    else if (is_exchange(step))
      step.primitive = Primitive::kAllToAll;
    else
      return std::nullopt;
    return step;
  }

  static std::vector<std::size_t> changed_axes(const NdSbp& from, const NdSbp& to) {
    std::vector<std::size_t> axes;
    const auto letter = [](Sbp word) {
      word.nesting = 0;
      return word;
    };
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      if (letter(from[axis]) != letter(to[axis])) axes.push_back(axis);
    // Nesting alone has changed: somewhere.
    if (axes.empty() && from != to) axes.push_back(0);
    return axes;
  }

  // One axis after the other: B to S inside the others, anything that is not partial to P.
  bool is_local(const BoxingStep& step) const {
    NdSbp kept = step.from;
    for (const std::size_t axis : step.group_axes) {
      const Sbp &from = step.from[axis], &to = step.to[axis];
      const bool slices = from.is_broadcast() && to.is_split();
      const bool fills = !from.is_partial() && to.is_partial();
      if (!slices && !fills) return false;
      if (fills) kept[axis] = Sbp::broadcast();
    }
    return only_adds_inside(kept, step.from) && only_adds_inside(kept, step.to) &&
           changed_axes(step.from, step.to).size() == step.group_axes.size() &&
           (step.from != step.to);
  }

  bool moves_innermost(const BoxingStep& step) const {
    NdSbp without = step.from;
    without[step.group_axes.front()] = Sbp::broadcast();
    return only_adds_inside(without, step.from) && only_adds_inside(without, step.to);
  }

  // Over all axes, in which nothing is partial.
  bool is_exchange(BoxingStep& step) const {
    for (const NdSbp* words : {&step.from, &step.to})
      for (const Sbp& word : *words)
        if (word.is_partial()) return false;
    step.group_axes.clear();
    for (std::size_t axis = 0; axis < step.from.size(); ++axis)
      if (placement().axes[axis].extent > 1) step.group_axes.push_back(axis);
    return true;
  }

  NaiveCost cost_of(BoxingStep step) const {
    if (step.kind == BoxingKind::kLocal) return {};
    for (std::size_t axis : step.group_axes)
      if (step.from[axis].is_partial()) step.reduce = step.from[axis].reduce;
    NaiveCost cost;
    for (const PairBytes& pair : reference_volume(step, request_.type, placement(), placement()))
      cost.bytes += pair.bytes.value;
    const bool by_time =
        request_.objective == BoxingObjective::kTime && request_.network != nullptr;
    cost.objective = by_time ? time_of(step).value : cost.bytes;
    return cost;
  }

  Duration time_of(const BoxingStep& step) const {
    Communication communication;
    communication.primitive = step.primitive;
    communication.reduce = step.reduce;
    communication.dtype = step.dtype;
    Duration slowest;
    for (const auto& members : groups_of(step, request_.type, placement(), placement())) {
      if (members.size() < 2) continue;
      slowest =
          std::max(slowest, request_.network->duration(collective_cost(
                                communication, request_.type.shape, {&step.from, &placement()},
                                {&step.to, &placement()}, members)));
    }
    return slowest;
  }

  const BoxingRequest& request_;
  std::set<ReduceOp> reductions_;
  std::vector<NdSbp> states_;
};

}  // namespace sextant
