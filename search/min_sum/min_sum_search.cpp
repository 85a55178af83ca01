// Depth first, the most promising label of the most entangled variable first.
#include "search/min_sum/min_sum_search.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "search/min_sum/dominated.h"
#include "search/min_sum/dual_bound.h"
#include "search/min_sum/elimination.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// What one forbidden entry costs in place of infinity: more than everything that is allowed.
std::int64_t penalty_of(const MinSumProblem& problem, std::int64_t most_cost) {
  std::int64_t sum = 1;
  for (const CostTable& table : problem.tables) {
    std::int64_t most = 0;
    for (const std::int64_t cost : table.costs)
      if (cost != kForbiddenCost) most = std::max(most, cost);
    sum += most;
  }
  return most_cost == kForbiddenCost ? sum : std::min(sum, most_cost + 1);
}

MinSumProblem with_penalty(const MinSumProblem& problem, std::int64_t penalty) {
  constexpr std::int64_t kMost = std::int64_t{1} << 61;
  require(penalty <= kMost / (static_cast<std::int64_t>(problem.tables.size()) + 1),
          ErrorCode::kUsage,
          "costs of {} tables that sum up to {} leave no room for what is forbidden",
          problem.tables.size(), penalty);
  MinSumProblem result = problem;
  for (CostTable& table : result.tables)
    for (std::int64_t& cost : table.costs) cost = std::min(cost, penalty);
  return result;
}

class BranchAndBound {
 public:
  BranchAndBound(std::int64_t least_forbidden, const MinSumOptions& options)
      : options_(options), best_cost_(least_forbidden) {}

  // The least cost of anything below this problem that was not found to be worse than the best, as
  // far as it is proven. `complete` fills in the labels of all variables above.
  using Complete = std::function<void(Labels&)>;
  std::int64_t explore(MinSumProblem problem, const Complete& complete) {
    const Elimination reduced(std::move(problem), options_.most_entries);
    const auto complete_all = [&](Labels& labels) {
      reduced.complete(labels);
      complete(labels);
    };
    if (reduced.open().empty()) {
      offer(reduced.constant(), reduced.rest().labels.size(), complete_all);
      return reduced.constant();
    }
    const DualBound dual =
        dual_bound(reduced.rest(), options_.most_sweeps, [this] { return is_stopped(); });
    const std::int64_t bound = reduced.constant() + dual.bound;
    if (bound >= best_cost_ || is_stopped()) return bound;
    return std::max(bound, branch(reduced, dual, complete_all));
  }

  std::optional<Labels> take_labels() { return std::move(best_); }
  std::int64_t best_cost() const { return best_cost_; }
  std::int64_t branches() const { return branches_; }

 private:
  std::int64_t branch(const Elimination& reduced, const DualBound& dual, const Complete& complete) {
    ++branches_;
    const std::int32_t variable = most_entangled(reduced);
    const std::vector<std::int64_t>& belief = at(dual.beliefs, variable);
    std::vector<std::int32_t> order(belief.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int32_t a, std::int32_t b) { return at(belief, a) < at(belief, b); });
    std::int64_t least = kForbiddenCost;
    for (const std::int32_t label : order) {
      MinSumProblem child = with_label(reduced.rest(), variable, label);
      child.tables.push_back({{}, {reduced.constant()}});
      least = std::min(least, explore(std::move(child), [&](Labels& labels) {
                         at(labels, variable) = label;
                         complete(labels);
                       }));
    }
    return least;
  }

  static std::int32_t most_entangled(const Elimination& reduced) {
    std::vector<std::int32_t> tables(reduced.rest().labels.size(), 0);
    for (const CostTable& table : reduced.rest().tables)
      for (const std::int32_t variable : table.scope) ++at(tables, variable);
    return *std::max_element(
        reduced.open().begin(), reduced.open().end(),
        [&](std::int32_t a, std::int32_t b) { return at(tables, a) < at(tables, b); });
  }

  void offer(std::int64_t cost, std::size_t variables, const Complete& complete) {
    if (cost >= best_cost_) return;
    best_cost_ = cost;
    best_.emplace(variables, 0);
    complete(*best_);
  }

  bool is_stopped() {
    stopped_ = stopped_ || (options_.stop && options_.stop());
    return stopped_;
  }

  const MinSumOptions& options_;
  std::optional<Labels> best_;
  std::int64_t best_cost_;
  std::int64_t branches_ = 0;
  bool stopped_ = false;
};

}  // namespace

MinSumSolution solve(const MinSumProblem& problem, const MinSumOptions& options) {
  validate(problem);
  const std::int64_t penalty = penalty_of(problem, options.most_cost);
  BranchAndBound search(penalty, options);
  MinSumProblem finite = with_penalty(problem, penalty);
  MinSumSolution solution;
  std::int64_t least = 0;
  if (options.drop_dominated) {
    const Undominated fewer = without_dominated(finite);
    least = search.explore(fewer.problem, [](Labels&) {});
    solution.labels = search.take_labels();
    if (solution.labels) solution.labels = fewer.original(*solution.labels);
  } else {
    least = search.explore(std::move(finite), [](Labels&) {});
    solution.labels = search.take_labels();
  }
  solution.branches = search.branches();
  solution.lower_bound = least >= penalty ? kForbiddenCost : std::min(least, search.best_cost());
  if (solution.labels) solution.cost = search.best_cost();
  return solution;
}

}  // namespace sextant
