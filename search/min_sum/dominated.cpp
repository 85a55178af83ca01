// Variables wait in a queue, again whenever a neighbour lost a label.
#include "search/min_sum/dominated.h"

#include "core/base/at.h"

#include <algorithm>
#include <cstddef>
#include <deque>
#include <limits>
#include <utility>

namespace sextant {
namespace {

class Labelling {
 public:
  explicit Labelling(const MinSumProblem& problem)
      : problem_(problem),
        tables_of_(problem.labels.size()),
        kept_(problem.labels.size()),
        waits_(problem.labels.size(), true) {
    for (std::int32_t v = 0; v < problem.num_variables(); ++v) {
      for (std::int32_t label = 0; label < at(problem.labels, v); ++label)
        at(kept_, v).push_back(label);
      queue_.push_back(v);
    }
    for (std::int32_t t = 0; t < size_of(problem.tables); ++t)
      for (const std::int32_t variable : at(problem.tables, t).scope)
        at(tables_of_, variable).push_back(t);
  }

  void run() {
    while (!queue_.empty()) {
      const std::int32_t variable = queue_.front();
      queue_.pop_front();
      at(waits_, variable) = false;
      if (reduce(variable)) call_neighbours(variable);
    }
  }

  Undominated take() {
    Undominated result{{{}, {}}, std::move(kept_)};
    for (const auto& labels : result.kept) result.problem.labels.push_back(size_of(labels));
    for (const CostTable& table : problem_.tables) {
      CostTable& fewer = result.problem.tables.emplace_back();
      fewer.scope = table.scope;
      for (const std::size_t entry : entries(table, result.kept, -1))
        fewer.costs.push_back(table.costs[entry]);
    }
    return result;
  }

 private:
  using Kept = std::vector<std::vector<std::int32_t>>;

  std::size_t stride(const CostTable& table, std::int32_t of) const {
    std::size_t stride = 1;
    for (std::size_t i = table.scope.size(); table.scope[--i] != of;)
      stride *= at(at(problem_.labels, table.scope[i]));
    return stride;
  }

  // Entries of all combinations of labels that are left, those of the last variable side by side;
  // of the variable `without` label 0.
  std::vector<std::size_t> entries(const CostTable& table, const Kept& kept,
                                   std::int32_t without) const {
    std::vector<std::size_t> all = {0};
    for (const std::int32_t variable : table.scope) {
      std::vector<std::size_t> longer;
      const auto labels = at(at(problem_.labels, variable));
      for (const std::size_t entry : all)
        if (variable == without)
          longer.push_back(entry * labels);
        else
          for (const std::int32_t label : at(kept, variable))
            longer.push_back(entry * labels + at(label));
      all = std::move(longer);
    }
    return all;
  }

  // What a table costs by label of the variable, the others' labels one after the other.
  struct Costs {
    std::size_t others = 0;
    std::vector<std::int64_t> by_label;
    const std::int64_t* of(std::size_t label) const { return by_label.data() + label * others; }
  };

  Costs costs_of(std::int32_t number, std::int32_t variable) const {
    const CostTable& table = at(problem_.tables, number);
    const std::vector<std::size_t> others = entries(table, kept_, variable);
    const std::size_t step = stride(table, variable);
    Costs costs{others.size(), {}};
    for (const std::int32_t label : at(kept_, variable))
      for (const std::size_t entry : others)
        costs.by_label.push_back(table.costs[entry + at(label) * step]);
    return costs;
  }

  // Whether `label` costs no less than `other`, whatever the neighbours take. Positions in kept_.
  static bool is_dominated(const std::vector<Costs>& tables, std::size_t label, std::size_t other) {
    std::int64_t least = 0;
    for (const Costs& costs : tables) {
      const std::int64_t *const own = costs.of(label), *const others = costs.of(other);
      std::int64_t difference = std::numeric_limits<std::int64_t>::max();
      for (std::size_t i = 0; i < costs.others; ++i)
        difference = std::min(difference, own[i] - others[i]);
      least += difference;
    }
    return least >= 0;
  }

  bool reduce(std::int32_t variable) {
    std::vector<std::int32_t>& labels = at(kept_, variable);
    if (labels.size() < 2) return false;
    std::vector<Costs> tables;
    for (const std::int32_t table : at(tables_of_, variable))
      tables.push_back(costs_of(table, variable));
    std::vector<bool> is_left(labels.size(), true);
    for (std::size_t label = labels.size(); label-- > 0;)
      for (std::size_t other = 0; other < labels.size() && is_left[label]; ++other)
        if (other != label && is_left[other] && is_dominated(tables, label, other))
          is_left[label] = false;
    std::vector<std::int32_t> left;
    for (std::size_t label = 0; label < labels.size(); ++label)
      if (is_left[label]) left.push_back(labels[label]);
    const bool is_shorter = left.size() < labels.size();
    labels = std::move(left);
    return is_shorter;
  }

  void call_neighbours(std::int32_t variable) {
    for (const std::int32_t table : at(tables_of_, variable))
      for (const std::int32_t other : at(problem_.tables, table).scope)
        if (other != variable && !at(waits_, other)) {
          at(waits_, other) = true;
          queue_.push_back(other);
        }
  }

  const MinSumProblem& problem_;
  std::vector<std::vector<std::int32_t>> tables_of_;  // by variable
  Kept kept_;
  std::vector<bool> waits_;  // by variable: it is in the queue
  std::deque<std::int32_t> queue_;
};

}  // namespace

Labels Undominated::original(const Labels& labels) const {
  Labels result;
  for (std::int32_t v = 0; v < size_of(labels); ++v)
    result.push_back(at(at(kept, v), at(labels, v)));
  return result;
}

Undominated without_dominated(const MinSumProblem& problem) {
  Labelling labelling(problem);
  labelling.run();
  return labelling.take();
}

}  // namespace sextant
