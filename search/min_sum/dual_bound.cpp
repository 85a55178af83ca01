// Block coordinate ascent: one block is a table with all of its variables.
#include "search/min_sum/dual_bound.h"

#include "core/base/at.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace sextant {
namespace {

// Rounded down, for divisors above 0.
std::int64_t floor_divide(std::int64_t value, std::int64_t by) {
  return value / by - (value % by < 0 ? 1 : 0);
}

class Ascent {
 public:
  explicit Ascent(const MinSumProblem& problem) : problem_(problem) {
    for (const std::int32_t labels : problem.labels) beliefs_.emplace_back(at(labels), 0);
    for (const CostTable& table : problem.tables) {
      std::vector<std::vector<std::int64_t>>& given = given_.emplace_back();
      for (const std::int32_t variable : table.scope)
        given.emplace_back(at(at(problem.labels, variable)), 0);
    }
  }

  void sweep() {
    for (std::size_t t = 0; t < problem_.tables.size(); ++t) update(t);
  }

  // Of the last sweep: a table's own minimum is what it did not hand over.
  std::int64_t bound() const {
    std::int64_t sum = 0;
    for (const auto& belief : beliefs_) sum += *std::min_element(belief.begin(), belief.end());
    for (std::size_t t = 0; t < problem_.tables.size(); ++t) sum += kept_by(t);
    return sum;
  }

  std::vector<std::vector<std::int64_t>> take_beliefs() { return std::move(beliefs_); }

 private:
  // Calls visit(entry, labels) for all entries of a table; labels are by position in its scope.
  template <typename Visit>
  void for_each_entry(const CostTable& table, Visit visit) const {
    std::vector<std::size_t> labels(table.scope.size(), 0);
    for (std::size_t entry = 0; entry < table.costs.size(); ++entry) {
      visit(entry, labels);
      for (std::size_t i = labels.size(); i-- > 0;) {
        if (++labels[i] < at(at(problem_.labels, table.scope[i]))) break;
        labels[i] = 0;
      }
    }
  }

  // Takes back what the table gave, then gives every variable its share of the least that each of
  // its labels costs here with the best of the others.
  void update(std::size_t t) {
    const CostTable& table = problem_.tables[t];
    const std::size_t arity = table.scope.size();
    if (arity == 0) return;
    auto& given = given_[t];
    for (std::size_t i = 0; i < arity; ++i)
      for (std::size_t l = 0; l < given[i].size(); ++l)
        at(beliefs_, table.scope[i])[l] -= given[i][l];
    auto least = given;
    for (auto& of_variable : least)
      std::fill(of_variable.begin(), of_variable.end(), std::numeric_limits<std::int64_t>::max());
    for_each_entry(table, [&](std::size_t entry, const std::vector<std::size_t>& labels) {
      std::int64_t sum = table.costs[entry];
      for (std::size_t i = 0; i < arity; ++i) sum += at(beliefs_, table.scope[i])[labels[i]];
      for (std::size_t i = 0; i < arity; ++i)
        least[i][labels[i]] = std::min(least[i][labels[i]], sum);
    });
    for (std::size_t i = 0; i < arity; ++i)
      for (std::size_t l = 0; l < given[i].size(); ++l) {
        std::int64_t& belief = at(beliefs_, table.scope[i])[l];
        const std::int64_t share = floor_divide(least[i][l], static_cast<std::int64_t>(arity));
        given[i][l] = share - belief;
        belief = share;
      }
  }

  std::int64_t kept_by(std::size_t t) const {
    const CostTable& table = problem_.tables[t];
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for_each_entry(table, [&](std::size_t entry, const std::vector<std::size_t>& labels) {
      std::int64_t left = table.costs[entry];
      for (std::size_t i = 0; i < labels.size(); ++i) left -= given_[t][i][labels[i]];
      least = std::min(least, left);
    });
    return least;
  }

  const MinSumProblem& problem_;
  std::vector<std::vector<std::int64_t>> beliefs_;             // by variable, label
  std::vector<std::vector<std::vector<std::int64_t>>> given_;  // by table, position in scope, label
};

}  // namespace

DualBound dual_bound(const MinSumProblem& problem, int most_sweeps,
                     const std::function<bool()>& stop) {
  Ascent ascent(problem);
  std::int64_t bound = ascent.bound();
  for (int sweep = 0; sweep < most_sweeps; ++sweep) {
    if (stop && stop()) break;
    ascent.sweep();
    const std::int64_t raised = ascent.bound();
    const bool is_over = raised - bound <= bound / 1000;
    bound = std::max(bound, raised);
    if (is_over) break;
  }
  return {bound, ascent.take_beliefs()};
}

}  // namespace sextant
