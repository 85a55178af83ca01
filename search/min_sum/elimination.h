// Exact reduction of a min-sum problem: a variable is replaced by a table over its neighbours that
// says what it costs at best (bucket elimination; Dechter 1999). Chains and trees vanish
// altogether; what is left is what holds together too widely.
#pragma once

#include "search/min_sum/problem.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

class Elimination {
 public:
  // Eliminates the variable whose table would be smallest, again and again, as long as that table
  // has at most `most_entries` entries. `problem` is valid; forbidden costs have been replaced by
  // finite ones (min_sum_search.h does).
  Elimination(MinSumProblem problem, std::size_t most_entries);

  // Variables that are left, ascending; tables of `rest()` are over these alone.
  const std::vector<std::int32_t>& open() const { return open_; }
  const MinSumProblem& rest() const { return problem_; }
  // Least cost of the problem = constant() + least cost of rest().
  std::int64_t constant() const { return constant_; }
  // Labels of the eliminated variables that go best with those of the open ones.
  void complete(Labels& labels) const;

 private:
  struct Step {
    std::int32_t variable = 0;
    std::vector<std::int32_t> scope;  // its neighbours
    std::vector<std::int32_t> best;   // label by combination of theirs
  };

  std::vector<std::int32_t> neighbours_of(std::int32_t variable) const;
  std::size_t size_without(std::int32_t variable) const;
  void eliminate_all(std::size_t most_entries);
  void eliminate(std::int32_t variable);
  void minimise(Step& step, std::vector<std::int64_t>& least) const;
  void remove(std::int32_t table, std::int32_t variable);
  void keep_live_tables();

  MinSumProblem problem_;
  std::vector<bool> is_live_;                         // by table
  std::vector<std::vector<std::int32_t>> tables_of_;  // by variable: live tables
  std::vector<Step> steps_;
  std::vector<std::int32_t> open_;
  std::int64_t constant_ = 0;
};

}  // namespace sextant
