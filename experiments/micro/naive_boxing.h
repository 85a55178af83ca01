// The obvious boxing planner, to compare with: Dijkstra's search over words as vectors, told apart
// by their text, on one or two placements. Every pair of words is tried as a step, costed by
// listing what goes from device to device.
#pragma once

#include "experiments/micro/naive_steps.h"
#include "sbp/boxing.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

class NaiveBoxing {
 public:
  explicit NaiveBoxing(const BoxingRequest& request)
      : request_(request),
        steps_(request),
        one_placement_(*request.from_placement == *request.to_placement) {
    for (const NdSbp* words : {&request.from, &request.to})
      for (const Sbp& word : *words)
        if (word.is_partial()) reductions_.insert(word.reduce);
    if (reductions_.empty()) reductions_.insert(ReduceOp::kSum);  // a way may pass through one
    list_states(false, {});
    if (!one_placement_) list_states(true, {});
  }

  NaiveCost cost() const {
    const State goal{!one_placement_, canonical(request_.to)};
    std::map<std::string, NaiveCost> best = {{text_of({false, canonical(request_.from)}), {}}};
    std::set<std::string> settled;
    while (settled.count(text_of(goal)) == 0) {
      std::optional<std::string> nearest;
      for (const auto& [text, cost] : best)
        if (settled.count(text) == 0 && (!nearest || cost < best.at(*nearest))) nearest = text;
      settled.insert(nearest.value());
      for (const State& to : states_) {
        const std::optional<BoxingStep> step = steps_.step_between(state_of(*nearest), to);
        if (!step) continue;
        const NaiveCost own = naive_cost_of(request_, *step), before = best.at(*nearest);
        const NaiveCost total{before.objective + own.objective, before.bytes + own.bytes};
        const auto [known, is_new] = best.emplace(text_of(to), total);
        if (!is_new) known->second = std::min(known->second, total);
      }
    }
    return best.at(text_of(goal));
  }

 private:
  using State = NaiveSteps::State;
  static std::string text_of(const State& state) {
    return (state.on_target ? "target " : "source ") + to_string(state.words);
  }
  static State state_of(const std::string& text) {
    return {text.starts_with("target"), parse_nd_sbp(text.substr(7))};
  }

  // All words with every nesting order of the splits of a dim, in canonical form.
  void list_states(bool target, const NdSbp& words) {
    const std::vector<MeshAxis>& axes = steps_.placement(target).axes;
    if (words.size() == axes.size()) return list_nestings(target, words, 0);
    std::vector<Sbp> letters = {Sbp::broadcast()};
    if (axes[words.size()].extent > 1) {
      for (std::size_t dim = 0; dim < request_.type.shape.rank(); ++dim)
        letters.push_back(Sbp::split(dim));
      for (const ReduceOp op : reductions_) letters.push_back(Sbp::partial(op));
    }
    for (const Sbp& letter : letters) {
      NdSbp longer = words;
      longer.push_back(letter);
      if (naive_reductions_of(longer).size() < 2) list_states(target, longer);
    }
  }
  void list_nestings(bool target, NdSbp words, std::size_t dim) {
    if (dim == request_.type.shape.rank()) return states_.push_back({target, canonical(words)});
    std::vector<std::size_t> axes = naive_order_of(words, dim);
    std::sort(axes.begin(), axes.end());
    do {
      for (std::size_t i = 0; i < axes.size(); ++i)
        words[axes[i]].nesting = static_cast<std::uint8_t>(axes.size() < 2 ? 0 : i + 1);
      list_nestings(target, words, dim + 1);
    } while (std::next_permutation(axes.begin(), axes.end()));
  }
  const BoxingRequest& request_;
  const NaiveSteps steps_;
  bool one_placement_;
  std::set<ReduceOp> reductions_;
  std::vector<State> states_;
};

}  // namespace sextant
