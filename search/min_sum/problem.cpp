// Checks, sums and conditioning of min-sum problems.
#include "search/min_sum/problem.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {
namespace {

constexpr std::int64_t kMostCost = std::int64_t{1} << 60;
constexpr std::size_t kMostEntries = std::size_t{1} << 31;

void validate_table(const MinSumProblem& problem, std::size_t number) {
  const CostTable& table = problem.tables[number];
  for (std::size_t i = 0; i < table.scope.size(); ++i) {
    const std::int32_t variable = table.scope[i];
    require(variable >= 0 && variable < problem.num_variables(), ErrorCode::kUsage,
            "table {} is of variable {}, of {}", number, variable, problem.num_variables());
    const auto begin = table.scope.begin();
    require(std::find(begin, begin + static_cast<std::ptrdiff_t>(i), variable) ==
                begin + static_cast<std::ptrdiff_t>(i),
            ErrorCode::kUsage, "table {} has variable {} twice", number, variable);
  }
  const std::size_t wanted = num_entries(problem, table.scope);
  require(table.costs.size() == wanted, ErrorCode::kUsage, "table {} has {} costs, wanted {}",
          number, table.costs.size(), wanted);
  for (const std::int64_t cost : table.costs)
    require(cost >= 0, ErrorCode::kUsage, "table {} has a cost of {}, wanted at least 0", number,
            cost);
}

std::int64_t largest_cost(const CostTable& table) {
  std::int64_t most = 0;
  for (const std::int64_t cost : table.costs)
    if (cost != kForbiddenCost) most = std::max(most, cost);
  return most;
}

}  // namespace

std::size_t num_entries(const MinSumProblem& problem, std::span<const std::int32_t> scope) {
  std::size_t entries = 1;
  for (const std::int32_t variable : scope) {
    entries *= static_cast<std::size_t>(at(problem.labels, variable));
    require(entries <= kMostEntries, ErrorCode::kInfeasible,
            "a table over {} variables has more than 2^31 entries", scope.size());
  }
  return entries;
}

void validate(const MinSumProblem& problem) {
  for (std::size_t v = 0; v < problem.labels.size(); ++v)
    require(problem.labels[v] >= 1, ErrorCode::kUsage, "variable {} has {} labels", v,
            problem.labels[v]);
  std::int64_t most = 0;
  for (std::size_t t = 0; t < problem.tables.size(); ++t) {
    validate_table(problem, t);
    const std::int64_t largest = largest_cost(problem.tables[t]);
    require(largest <= kMostCost - most, ErrorCode::kUsage,
            "the largest costs of tables 0 to {} pass 2^60 together", t);
    most += largest;
  }
}

std::int64_t cost_of(const MinSumProblem& problem, std::span<const std::int32_t> labels) {
  std::int64_t sum = 0;
  for (const CostTable& table : problem.tables) {
    std::size_t entry = 0;
    for (const std::int32_t variable : table.scope)
      entry = entry * static_cast<std::size_t>(at(problem.labels, variable)) +
              static_cast<std::size_t>(labels[static_cast<std::size_t>(variable)]);
    if (table.costs[entry] == kForbiddenCost) return kForbiddenCost;
    sum += table.costs[entry];
  }
  return sum;
}

MinSumProblem with_label(const MinSumProblem& problem, std::int32_t variable, std::int32_t label) {
  MinSumProblem result;
  result.labels = problem.labels;
  result.tables.reserve(problem.tables.size());
  for (const CostTable& table : problem.tables) {
    const auto found = std::find(table.scope.begin(), table.scope.end(), variable);
    if (found == table.scope.end()) {
      result.tables.push_back(table);
      continue;
    }
    CostTable& rest = result.tables.emplace_back();
    rest.scope.assign(table.scope.begin(), found);
    rest.scope.insert(rest.scope.end(), found + 1, table.scope.end());
    const std::size_t inner =
        num_entries(problem, {table.scope.data() + (found - table.scope.begin()) + 1,
                              static_cast<std::size_t>(table.scope.end() - found) - 1});
    const auto labels = static_cast<std::size_t>(at(problem.labels, variable));
    const std::size_t outer = table.costs.size() / (inner * labels);
    rest.costs.reserve(outer * inner);
    for (std::size_t o = 0; o < outer; ++o) {
      const auto first =
          table.costs.begin() +
          static_cast<std::ptrdiff_t>((o * labels + static_cast<std::size_t>(label)) * inner);
      rest.costs.insert(rest.costs.end(), first, first + static_cast<std::ptrdiff_t>(inner));
    }
  }
  return result;
}

}  // namespace sextant
