// Fronts of time and memory against their definition, and the search for them against brute force.

#include "search/search/pareto.h"

#include "core/base/error.h"
#include "tests/search/small_spaces.h"
#include "tests/support/long_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant::pareto_test {
namespace {

using namespace small_spaces;

using Point = std::pair<Duration, Bytes>;

Candidate plan_at(std::int64_t time, std::int64_t memory) {
  Candidate plan;
  plan.step_time = Duration(time);
  plan.most_needed = Bytes(memory);
  return plan;
}

// The definition: nobody is at least as good in both and better in one.
std::set<Point> undominated(const std::vector<Candidate>& plans) {
  std::set<Point> front;
  for (const Candidate& plan : plans) {
    const bool beaten = std::any_of(plans.begin(), plans.end(), [&](const Candidate& other) {
      return other.step_time <= plan.step_time && other.most_needed <= plan.most_needed &&
             (other.step_time < plan.step_time || other.most_needed < plan.most_needed);
    });
    if (!beaten) front.emplace(plan.step_time, plan.most_needed);
  }
  return front;
}

std::set<Point> front_points(const std::vector<Candidate>& plans) {
  std::set<Point> points;
  const std::vector<std::size_t> front = pareto_front(plans);
  for (const std::size_t i : front) points.emplace(plans[i].step_time, plans[i].most_needed);
  CHECK(points.size() == front.size());  // equal plans stand there once
  CHECK(std::is_sorted(front.begin(), front.end()));
  return points;
}

// All sets of at most four points on a grid of three by three, ties and duplicates among them.
TEST_CASE("a front is what no other plan beats in both") {
  constexpr int kGrid = 9, kPlans = 4;
  for (int code = 0; code < kGrid * kGrid * kGrid * kGrid; ++code) {
    std::vector<Candidate> plans;
    ParetoFront grown;
    for (int rest = code, i = 0; i < kPlans; ++i, rest /= kGrid)
      plans.push_back(plan_at(rest % kGrid / 3, rest % kGrid % 3));
    for (const Candidate& plan : plans) grown.add(plan.step_time, plan.most_needed);
    const std::set<Point> front = undominated(plans);
    for (int time = 0; time < 3; ++time)
      for (int memory = 0; memory < 3; ++memory)
        CHECK(grown.covers(Duration(time), Bytes(memory)) ==
              std::any_of(front.begin(), front.end(), [&](const Point& point) {
                return point.first <= Duration(time) && point.second <= Bytes(memory);
              }));
    std::stable_sort(plans.begin(), plans.end(), [](const Candidate& a, const Candidate& b) {
      return a.step_time < b.step_time;
    });
    CHECK(front_points(plans) == front);
  }
}

struct Case {
  SearchInstance instance;
  std::vector<std::string> fixed;
};

// Conditions keep a case at about a hundred strategies; at some forty where time is short: sp and
// recomputation are then open on two devices only.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const SearchInstance& instance : tiny_instances()) all.push_back({instance, {}});
  const std::vector<SearchInstance> small = instances();
  all.push_back({small[1], {"cp=1", "pieces=1", "micro_batch=1", "recompute=none"}});
  all.push_back({small[2], {"cp=1", "sp=off", "pieces=1", "micro_batch=1", "schedule=1f1b"}});
  if (!is_long_run()) {
    all[all.size() - 2].fixed.push_back("sp=off");
    all.back().fixed.push_back("recompute=none");
  }
  return all;
}

TEST_CASE("the search for a front finds the front of all leaves, compiled one by one") {
  std::int64_t cut = 0, missed = 0;
  for (const auto& [instance, fixed] : cases()) {
    CAPTURE(instance.name);
    const SearchProblem problem = problem_of(instance);
    const SearchModels models = make_search_models(problem);
    std::vector<Candidate> plans;
    for (const Strategy& strategy : leaves_of(space_of(instance, {fixed, {}}))) {
      try {
        Candidate plan = evaluate_strategy(problem.training_graph(strategy), strategy,
                                           instance.global_batch, models);
        if (plan.needed_memory <= plan.capacity) plans.push_back(std::move(plan));
      } catch (const Error& error) {
        CHECK(error.code() == ErrorCode::kInfeasible);
      }
    }
    const std::set<Point> front = undominated(plans);
    REQUIRE(!front.empty());

    SearchLimits limits;
    limits.fixed = fixed;
    const SearchResult fastest = search(problem, limits);
    limits.pareto = true;
    const SearchResult result = search(problem, limits);
    check_fates(result);
    CHECK(result.complete());
    CHECK(front_points(result.plans) == front);
    CHECK(result.plans.front().step_time == fastest.plans.front().step_time);
    CHECK(result.lower_bound == fastest.lower_bound);
    cut += result.cut_by_bound;
    if (front_points(fastest.plans) != front) ++missed;
  }
  // The rule saves work, and the one for the fastest plan would not do.
  CHECK(cut > 0);
  CHECK(missed > 0);
}

TEST_CASE("a search for a front that ends early says what is open, and its front is of its plans") {
  const SearchInstance instance = instances()[1];
  const SearchProblem problem = problem_of(instance);
  SearchLimits limits;
  limits.pareto = true;
  limits.patience = 4;
  limits.enough_gap = 0.9;  // of the fastest alone: ends nothing here
  const SearchResult result = search(problem, limits);
  check_fates(result);
  CHECK(result.open > 0);
  CHECK(result.simulated > 4);
  CHECK(front_points(result.plans) == undominated(result.plans));
}

TEST_CASE("a plan on mixed devices takes what the device takes that needs most") {
  const SearchInstance instance = tiny_instances()[1];
  const SearchProblem problem = problem_of(instance);
  Strategy strategy;
  strategy.pp = 2;
  const Candidate plan = evaluate_strategy(problem.training_graph(strategy), strategy,
                                           instance.global_batch, make_search_models(problem));
  CHECK(plan.most_needed >= plan.needed_memory);
  CHECK(plan.most_needed >= plan.peak_memory);
}

}  // namespace
}  // namespace sextant::pareto_test
