// A min-sum problem: variables with a few labels each, costs that are sums of tables over a few
// variables each; wanted is the assignment of labels with the least sum. (Also: energy of a
// discrete graphical model, weighted constraint satisfaction.) What the tables mean is not known
// here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace sextant {

// Cost of what may not be.
inline constexpr std::int64_t kForbiddenCost = std::numeric_limits<std::int64_t>::max();

// Costs of all combinations of labels of the variables in `scope`, those of the last variable side
// by side.
struct CostTable {
  std::vector<std::int32_t> scope;  // variables, each once; empty: a constant
  std::vector<std::int64_t> costs;  // not negative, or kForbiddenCost
};

struct MinSumProblem {
  std::vector<std::int32_t> labels;  // by variable: how many it has, at least 1
  std::vector<CostTable> tables;

  std::int32_t num_variables() const { return static_cast<std::int32_t>(labels.size()); }
};

using Labels = std::vector<std::int32_t>;  // by variable

// Entries of a table over these variables. Throws Error(kInfeasible) beyond 2^31.
std::size_t num_entries(const MinSumProblem& problem, std::span<const std::int32_t> scope);

// Throws Error(kUsage) naming the table or variable that is wrong, and where the largest costs of
// all tables together pass 2^60: sums would not fit.
void validate(const MinSumProblem& problem);

// kForbiddenCost where any table says so.
std::int64_t cost_of(const MinSumProblem& problem, std::span<const std::int32_t> labels);

// The same problem with variable `variable` held at `label`: tables lose the variable, whose number
// stays.
MinSumProblem with_label(const MinSumProblem& problem, std::int32_t variable, std::int32_t label);

}  // namespace sextant
