// Min-sum problems: elimination, dual bound and branch and bound against trying every assignment.

#include "core/base/error.h"
#include "search/min_sum/dominated.h"
#include "search/min_sum/dual_bound.h"
#include "search/min_sum/elimination.h"
#include "search/min_sum/lp_text.h"
#include "search/min_sum/min_sum_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace sextant::min_sum_test {
namespace {

using Random = std::mt19937_64;

std::int64_t draw(Random& random, std::int64_t most) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
}

struct Shape {
  int variables, labels, tables, arity;
  std::int64_t most_cost;
  int forbidden_percent;
};

MinSumProblem random_problem(Random& random, const Shape& shape) {
  MinSumProblem problem;
  for (int v = 0; v < shape.variables; ++v)
    problem.labels.push_back(static_cast<std::int32_t>(1 + draw(random, shape.labels - 1)));
  for (int t = 0; t < shape.tables; ++t) {
    CostTable table;
    for (auto i = draw(random, shape.arity); i > 0; --i) {
      const auto variable = static_cast<std::int32_t>(draw(random, shape.variables - 1));
      if (std::find(table.scope.begin(), table.scope.end(), variable) == table.scope.end())
        table.scope.push_back(variable);
    }
    table.costs.resize(num_entries(problem, table.scope));
    for (std::int64_t& cost : table.costs)
      cost = draw(random, 99) < shape.forbidden_percent ? kForbiddenCost
                                                        : draw(random, shape.most_cost);
    problem.tables.push_back(std::move(table));
  }
  return problem;
}

// Least cost over all assignments, one after the other.
std::int64_t tried(const MinSumProblem& problem) {
  Labels labels(problem.labels.size(), 0);
  std::int64_t least = kForbiddenCost;
  for (bool more = true; more;) {
    least = std::min(least, cost_of(problem, labels));
    more = false;
    for (std::size_t v = 0; v < labels.size() && !more; ++v) {
      more = ++labels[v] < problem.labels[v];
      if (!more) labels[v] = 0;
    }
  }
  return least;
}

void check_solution(const MinSumProblem& problem, const MinSumSolution& solution,
                    std::int64_t wanted) {
  CHECK(solution.is_proven());
  CHECK(solution.cost == wanted);
  CHECK(solution.labels.has_value() == (wanted != kForbiddenCost));
  if (solution.labels) CHECK(cost_of(problem, *solution.labels) == wanted);
}

// A grid of n x n variables with three labels: its width is n.
MinSumProblem grid(Random& random, int n) {
  MinSumProblem problem;
  problem.labels.assign(static_cast<std::size_t>(n * n), 3);
  const auto couple = [&](int a, int b) {
    CostTable table{{a, b}, {}};
    for (int entry = 0; entry < 9; ++entry) table.costs.push_back(draw(random, 100));
    problem.tables.push_back(std::move(table));
  };
  for (int row = 0; row < n; ++row)
    for (int column = 0; column < n; ++column) {
      if (column + 1 < n) couple(row * n + column, row * n + column + 1);
      if (row + 1 < n) couple(row * n + column, row * n + n + column);
    }
  return problem;
}

TEST_CASE("elimination finds what trying every assignment finds, on ten thousand problems") {
  Random random(1);
  for (int i = 0; i < 10'000; ++i) {
    const MinSumProblem problem = random_problem(
        random, {1 + i % 6, 1 + i % 4, i % 9, 3, i % 2 == 0 ? 5 : 1'000'000'000'000, i % 3 * 20});
    const MinSumSolution solution = solve(problem);
    CHECK(solution.branches == 0);
    check_solution(problem, solution, tried(problem));
  }
}

TEST_CASE("without dominated labels the least cost is the same, and fewer labels are left") {
  Random random(9);
  std::int64_t before = 0, after = 0;
  for (int i = 0; i < 3'000; ++i) {
    const MinSumProblem problem = random_problem(
        random, {2 + i % 5, 2 + i % 4, 2 + i % 7, 1 + i % 3, i % 2 == 0 ? 9 : 999, 0});
    const Undominated fewer = without_dominated(problem);
    const MinSumSolution solution = solve(fewer.problem, {.drop_dominated = false});
    REQUIRE(solution.labels);
    CHECK(solution.cost == tried(problem));
    CHECK(cost_of(problem, fewer.original(*solution.labels)) == solution.cost);
    for (const std::int32_t labels : problem.labels) before += labels;
    for (const std::int32_t labels : fewer.problem.labels) after += labels;
  }
  CHECK(after < before * 2 / 3);
}

TEST_CASE("where elimination may make no tables, branch and bound finds the same") {
  Random random(2);
  std::int64_t branches = 0;
  for (int i = 0; i < 1'000; ++i) {
    const MinSumProblem problem =
        random_problem(random, {3 + i % 4, 3, 6 + i % 6, 2 + i % 2, 50, i % 4 * 15});
    const MinSumSolution solution =
        solve(problem, {.most_entries = 1, .most_sweeps = i % 5, .drop_dominated = i % 2 == 0});
    branches += solution.branches;
    check_solution(problem, solution, tried(problem));
  }
  CHECK(branches > 300);
}

TEST_CASE("an assignment that is known cuts what costs more and nothing else") {
  Random random(10);
  for (int i = 0; i < 1'000; ++i) {
    const MinSumProblem problem =
        random_problem(random, {3 + i % 4, 3, 4 + i % 6, 2, 50, i % 3 * 20});
    const std::int64_t least = tried(problem);
    if (least == kForbiddenCost || least == 0) continue;
    check_solution(problem, solve(problem, {.most_entries = 1, .most_cost = least}), least);
    CHECK_FALSE(solve(problem, {.most_entries = 1, .most_cost = least - 1}).labels.has_value());
  }
  // Sums of the most of every table would pass what integers hold; those of assignments do not.
  MinSumProblem large{{2, 2}, {}};
  for (int i = 0; i < 1'000; ++i) {
    const std::int64_t most = std::int64_t{1} << 50;
    large.tables.push_back({{0, 1}, {1, most, most, most}});
  }
  CHECK_THROWS_AS(solve(large), Error);
  CHECK(solve(large, {.most_cost = 2'000}).cost == 1'000);
}

TEST_CASE("the dual bound is never above the least cost, and rises to it on trees") {
  Random random(3);
  for (int i = 0; i < 2'000; ++i) {
    const MinSumProblem problem = random_problem(random, {2 + i % 5, 4, 1 + i % 8, 3, 1'000, 0});
    const std::int64_t least = tried(problem);
    for (const int sweeps : {0, 1, 20}) CHECK(dual_bound(problem, sweeps).bound <= least);
  }
  for (int i = 0; i < 200; ++i) {
    MinSumProblem chain;
    chain.labels.assign(6, 3);
    for (int v = 0; v + 1 < 6; ++v) {
      CostTable table{{v, v + 1}, {}};
      for (int entry = 0; entry < 9; ++entry) table.costs.push_back(1'000 * draw(random, 1'000));
      chain.tables.push_back(std::move(table));
    }
    const std::int64_t least = tried(chain);
    CHECK(dual_bound(chain, 1'000).bound >= least - least / 20);
  }
}

TEST_CASE("a search that is stopped at any moment has a true bound and a true cost") {
  Random random(4);
  for (int i = 0; i < 20; ++i) {
    const MinSumProblem problem = grid(random, 6);
    const std::int64_t least = solve(problem).cost;
    std::int64_t bound_before = 0, cost_before = kForbiddenCost;
    for (const int allowed : {0, 1, 3, 10, 30, 100}) {
      int polls = 0;
      const MinSumSolution stopped =
          solve(problem,
                {.most_entries = 9, .most_sweeps = 20, .stop = [&] { return ++polls > allowed; }});
      CHECK(stopped.lower_bound <= least);
      CHECK(stopped.cost >= least);
      if (stopped.labels) CHECK(cost_of(problem, *stopped.labels) == stopped.cost);
      CHECK(stopped.cost <= cost_before);
      cost_before = stopped.cost;
      bound_before = std::max(bound_before, stopped.lower_bound);
    }
    CHECK(bound_before <= least);
  }
}

TEST_CASE("a chain of five thousand variables is solved without a branch") {
  Random random(5);
  MinSumProblem chain;
  chain.labels.assign(5'000, 9);
  for (std::int32_t v = 0; v + 2 < 5'000; ++v)
    for (const std::int32_t other : {v + 1, v + 2}) {
      CostTable table{{v, other}, {}};
      for (int entry = 0; entry < 81; ++entry) table.costs.push_back(draw(random, 1'000'000));
      chain.tables.push_back(std::move(table));
    }
  const MinSumSolution solution = solve(chain);
  CHECK(solution.branches == 0);
  CHECK(cost_of(chain, *solution.labels) == solution.cost);
  CHECK(dual_bound(chain, 10).bound <= solution.cost);
}

TEST_CASE("two tables, worked by hand") {
  // f(a, b) = 4 1 / 2 8, g(b) = 6 0: a=0, b=1 costs 1 + 0; the next is a=1, b=0 with 2 + 6.
  const MinSumProblem problem{{2, 2}, {{{0, 1}, {4, 1, 2, 8}}, {{1}, {6, 0}}}};
  const MinSumSolution solution = solve(problem);
  CHECK(solution.cost == 1);
  CHECK(*solution.labels == Labels{0, 1});
  const MinSumSolution other = solve(with_label(problem, 0, 1));
  CHECK(other.cost == 8);
  MinSumProblem forbidden = problem;
  forbidden.tables.push_back({{1}, {kForbiddenCost, kForbiddenCost}});
  CHECK_FALSE(solve(forbidden).labels.has_value());
  CHECK(solve(forbidden).lower_bound == kForbiddenCost);
}

TEST_CASE("problems that say nothing sensible are refused") {
  CHECK_THROWS_WITH(solve({{0}, {}}), "variable 0 has 0 labels");
  CHECK_THROWS_WITH(solve({{2}, {{{1}, {0, 0}}}}), "table 0 is of variable 1, of 1");
  CHECK_THROWS_WITH(solve({{2}, {{{0, 0}, {0, 0, 0, 0}}}}), "table 0 has variable 0 twice");
  CHECK_THROWS_WITH(solve({{2}, {{{0}, {0}}}}), "table 0 has 1 costs, wanted 2");
  CHECK_THROWS_WITH(solve({{2}, {{{0}, {0, -1}}}}), "table 0 has a cost of -1, wanted at least 0");
  CHECK_THROWS_AS(solve({{1}, {{{0}, {std::int64_t{1} << 60}}, {{0}, {1}}}}), Error);
}

TEST_CASE("as an integer program, entries count as much as the labels that they are of") {
  const MinSumProblem problem{{2, 1}, {{{0, 1}, {4, kForbiddenCost}}}};
  const std::vector<std::string> names = {"first", "second"};
  CHECK(to_lp_text(problem, names) ==
        "\\ x0: first\n"
        "\\ x1: second\n"
        "Minimize\n"
        " obj: + 4 y0_0\n"
        "Subject To\n"
        " one0: + x0_0 + x0_1 = 1\n"
        " one1: + x1_0 = 1\n"
        " t0_0_0: + y0_0 - x0_0 = 0\n"
        " t0_0_1: - x0_1 = 0\n"
        " t0_1_0: + y0_0 - x1_0 = 0\n"
        "Binary\n"
        " x0_0 x0_1 x1_0\n"
        "End\n");
}

// The objective that CBC writes, "Optimal - objective value 12.00000000".
std::int64_t cbc_objective(const std::filesystem::path& folder, const MinSumProblem& problem) {
  const std::filesystem::path lp = folder / "problem.lp", found = folder / "found.txt";
  std::ofstream(lp) << to_lp_text(problem);
  const std::string command =
      "cbc " + lp.string() + " solve solution " + found.string() + " > /dev/null 2>&1";
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream file(found);
  std::string line;
  std::getline(file, line);
  REQUIRE(line.rfind("Optimal", 0) == 0);
  return std::llround(std::stod(line.substr(line.find("value") + 5)));
}

const bool kHasNoCbc = std::system("command -v cbc > /dev/null 2>&1") != 0;

TEST_CASE("CBC agrees on a hundred larger problems" * doctest::skip(kHasNoCbc)) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("sextant_min_sum_" + std::to_string(std::random_device()()));
  std::filesystem::create_directory(folder);
  Random random(6);
  for (int i = 0; i < 100; ++i) {
    const MinSumProblem problem =
        i % 2 == 0 ? grid(random, 3 + i % 3) : random_problem(random, {20, 4, 30, 2, 1'000, 0});
    CHECK(cbc_objective(folder, problem) == solve(problem, {.most_entries = 64}).cost);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sextant::min_sum_test
