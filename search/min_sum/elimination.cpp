// Variables in order of the table that they leave behind; ties by number, so results repeat.
#include "search/min_sum/elimination.h"

#include "core/base/at.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace sextant {
namespace {

// Walks through all combinations of labels of a scope and keeps the place in several tables.
class Walk {
 public:
  Walk(const MinSumProblem& problem, const std::vector<std::int32_t>& scope) : scope_(scope) {
    for (const std::int32_t variable : scope) extents_.push_back(at(problem.labels, variable));
    labels_.assign(scope.size(), 0);
  }

  // A table over variables of the scope and perhaps `beside`, whose stride is returned.
  std::size_t follow(const MinSumProblem& problem, const CostTable& table, std::int32_t beside) {
    std::vector<std::size_t> strides(scope_.size(), 0);
    std::size_t stride = 1, stride_beside = 0;
    for (std::size_t i = table.scope.size(); i-- > 0;) {
      const std::int32_t variable = table.scope[i];
      if (variable == beside)
        stride_beside = stride;
      else
        strides[static_cast<std::size_t>(std::lower_bound(scope_.begin(), scope_.end(), variable) -
                                         scope_.begin())] = stride;
      stride *= static_cast<std::size_t>(at(problem.labels, variable));
    }
    strides_.push_back(std::move(strides));
    places_.push_back(0);
    return stride_beside;
  }

  std::size_t place(std::size_t table) const { return places_[table]; }

  void next() {
    for (std::size_t i = scope_.size(); i-- > 0;) {
      const bool wraps = ++labels_[i] == extents_[i];
      const auto moved = static_cast<std::size_t>(wraps ? extents_[i] - 1 : 1);
      for (std::size_t t = 0; t < places_.size(); ++t)
        wraps ? places_[t] -= moved * strides_[t][i] : places_[t] += moved * strides_[t][i];
      if (!wraps) return;
      labels_[i] = 0;
    }
  }

 private:
  const std::vector<std::int32_t>& scope_;  // ascending
  std::vector<std::int32_t> extents_, labels_;
  std::vector<std::vector<std::size_t>> strides_;  // by table and variable of the scope
  std::vector<std::size_t> places_;                // by table
};

}  // namespace

Elimination::Elimination(MinSumProblem problem, std::size_t most_entries)
    : problem_(std::move(problem)),
      is_live_(problem_.tables.size(), true),
      tables_of_(problem_.labels.size()) {
  for (std::size_t t = 0; t < problem_.tables.size(); ++t) {
    const CostTable& table = problem_.tables[t];
    if (table.scope.empty()) {
      constant_ += table.costs.front();
      is_live_[t] = false;
    }
    for (const std::int32_t variable : table.scope)
      at(tables_of_, variable).push_back(static_cast<std::int32_t>(t));
  }
  eliminate_all(most_entries);
  keep_live_tables();
}

void Elimination::eliminate_all(std::size_t most_entries) {
  std::set<std::pair<std::size_t, std::int32_t>> next;
  std::vector<std::size_t> size_of(problem_.labels.size());
  for (std::int32_t v = 0; v < problem_.num_variables(); ++v)
    next.emplace(at(size_of, v) = size_without(v), v);
  while (!next.empty() && next.begin()->first <= most_entries) {
    const std::int32_t variable = next.begin()->second;
    next.erase(next.begin());
    eliminate(variable);
    for (const std::int32_t neighbour : steps_.back().scope) {
      next.erase({at(size_of, neighbour), neighbour});
      next.emplace(at(size_of, neighbour) = size_without(neighbour), neighbour);
    }
  }
  for (const auto& [size, variable] : next) open_.push_back(variable);
  std::sort(open_.begin(), open_.end());
}

std::vector<std::int32_t> Elimination::neighbours_of(std::int32_t variable) const {
  std::vector<std::int32_t> neighbours;
  for (const std::int32_t table : at(tables_of_, variable))
    for (const std::int32_t other : at(problem_.tables, table).scope)
      if (other != variable) neighbours.push_back(other);
  std::sort(neighbours.begin(), neighbours.end());
  neighbours.erase(std::unique(neighbours.begin(), neighbours.end()), neighbours.end());
  return neighbours;
}

// Entries of the table that it would leave behind.
std::size_t Elimination::size_without(std::int32_t variable) const {
  constexpr std::size_t kTooMany = std::numeric_limits<std::int32_t>::max();
  std::size_t entries = 1;
  for (const std::int32_t neighbour : neighbours_of(variable)) {
    entries *= static_cast<std::size_t>(at(problem_.labels, neighbour));
    if (entries > kTooMany) return kTooMany;
  }
  return entries;
}

void Elimination::eliminate(std::int32_t variable) {
  Step step{variable, neighbours_of(variable), {}};
  CostTable left{step.scope, {}};
  minimise(step, left.costs);
  for (const std::int32_t table : std::exchange(at(tables_of_, variable), {}))
    remove(table, variable);
  if (step.scope.empty()) {
    constant_ += left.costs.front();
  } else {
    const std::int32_t number = size_of(problem_.tables);
    for (const std::int32_t other : step.scope) at(tables_of_, other).push_back(number);
    problem_.tables.push_back(std::move(left));
    is_live_.push_back(true);
  }
  steps_.push_back(std::move(step));
}

// For every combination of the neighbours' labels the least sum of the variable's tables, and the
// first label that has it.
void Elimination::minimise(Step& step, std::vector<std::int64_t>& least) const {
  const std::vector<std::int32_t>& tables = at(tables_of_, step.variable);
  Walk walk(problem_, step.scope);
  std::vector<std::size_t> strides;
  std::vector<const std::int64_t*> costs;
  for (const std::int32_t table : tables) {
    strides.push_back(walk.follow(problem_, at(problem_.tables, table), step.variable));
    costs.push_back(at(problem_.tables, table).costs.data());
  }
  const auto labels = static_cast<std::size_t>(at(problem_.labels, step.variable));
  for (std::size_t entry = num_entries(problem_, step.scope); entry > 0; --entry, walk.next()) {
    std::int64_t best = std::numeric_limits<std::int64_t>::max();
    std::int32_t best_label = 0;
    for (std::size_t label = 0; label < labels; ++label) {
      std::int64_t sum = 0;
      for (std::size_t t = 0; t < costs.size(); ++t)
        sum += costs[t][walk.place(t) + label * strides[t]];
      if (sum >= best) continue;
      best = sum;
      best_label = static_cast<std::int32_t>(label);
    }
    least.push_back(best);
    step.best.push_back(best_label);
  }
}

// Takes a table of `variable` from the lists of the others that it is over.
void Elimination::remove(std::int32_t table, std::int32_t variable) {
  is_live_[at(table)] = false;
  for (const std::int32_t other : at(problem_.tables, table).scope) {
    if (other == variable) continue;
    std::vector<std::int32_t>& others = at(tables_of_, other);
    others.erase(std::find(others.begin(), others.end(), table));
  }
  at(problem_.tables, table) = {};
}

void Elimination::keep_live_tables() {
  std::vector<CostTable> live;
  for (std::size_t t = 0; t < problem_.tables.size(); ++t)
    if (is_live_[t]) live.push_back(std::move(problem_.tables[t]));
  problem_.tables = std::move(live);
  is_live_.clear();
  tables_of_.clear();
}

void Elimination::complete(Labels& labels) const {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    std::size_t entry = 0;
    for (const std::int32_t variable : step->scope)
      entry = entry * static_cast<std::size_t>(at(problem_.labels, variable)) +
              static_cast<std::size_t>(at(labels, variable));
    at(labels, step->variable) = step->best[entry];
  }
}

}  // namespace sextant
