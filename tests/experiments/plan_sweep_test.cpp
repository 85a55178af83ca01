// Points of `search --sweep`, and what a point says of its best plan.
#include "core/base/error.h"
#include "experiments/planned/best_plan.h"
#include "experiments/planned/measured_step.h"
#include "experiments/planned/planned_step.h"
#include "search/search/search.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace sextant::plan_sweep_test {
namespace {

const JobArguments kNames = {
    .plan_or_model = "gpt2-124m", .cluster = "cpu:ranks=2,memory=1GiB", .global_batch = 8};

TEST_CASE("a sweep is the product of its lists, and what is left out is the verb's") {
  const auto points = plan_sweep_points("model=gpt2-medium;gpt2-xl  global_batch=4;8;16", kNames);
  REQUIRE(points.size() == 6);
  std::set<std::string> names;
  for (const SweepPoint& point : points) {
    names.insert(point.name);
    CHECK(planned_step_from(point.parameters).cluster == kNames.cluster);
  }
  CHECK(names.size() == 6);
  CHECK(planned_step_from(points[4].parameters).plan_or_model == "gpt2-xl");
  CHECK(planned_step_from(points[4].parameters).global_batch == 8);
  CHECK(plan_sweep_points("cluster=cpu:ranks=2,memory=1GiB;dgx-h100:nodes=1", kNames).size() == 2);
}

TEST_CASE("a sweep that says nothing, something twice or something unknown is refused") {
  for (const char* text :
       {"modell=a", "model", "model=", "model=gpt2-xl;;gpt2-xl", "model=gpt2-xxl",
        "cluster=dgx-h1000:nodes=1", "model=gpt2-xl model=gpt2-xl", "global_batch=0",
        "global_batch=-4", "global_batch=4x", "batch=3"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(plan_sweep_points(text, kNames), Error);
  }
  CHECK_THROWS_WITH_AS(plan_sweep_points("modell=a", kNames), doctest::Contains("'model'"), Error);
  std::string many = "model=m";
  for (int index = 0; index < 10'000; ++index) many += ";m" + std::to_string(index);
  CHECK_THROWS_WITH_AS(plan_sweep_points(many, kNames), doctest::Contains("10001 points"), Error);
}

TEST_CASE("the best plan of a point is the search's") {
  JobArguments names = {.plan_or_model = "gpt:layers=2,hidden=32,heads=2,vocab=64,seq=16",
                        .cluster = "dgx1-v100:nodes=1",
                        .global_batch = 8};
  const Job job = make_job(names);
  SearchLimits limits;
  limits.fixed = {"pp=1", "zero=0"};
  const PointResult result = best_plan(job, limits);
  const SearchResult found = search(search_problem(job), limits);
  CHECK(to_text(result.values.front().second) == to_string(found.plans.front().strategy));
  names.strategy = to_text(result.values.front().second);
  CHECK(number_of(result.values, "step_s") == number_of(simulate_step(names).values, "step_s"));
  limits.memory = Bytes(1024);
  CHECK_THROWS_WITH_AS(best_plan(job, limits), doctest::Contains("none of"), Error);
}

TEST_CASE("measured steps move what the plan says, whatever the number of steps") {
  const PlannedStep step = {.plan_or_model = "gpt:layers=2,hidden=32,heads=2,vocab=64,seq=16",
                            .cluster = "cpu:ranks=2,memory=1GiB",
                            .strategy = "dp=2",
                            .global_batch = 4,
                            .dtype = "f32"};
  const PointResult two = measure_step(step, 1, {.warm_up = 1, .counted = 2});
  const PointResult five = measure_step(step, 1, {.warm_up = 2, .counted = 3});
  CHECK(*number_of(two.values, "step_s") > 0);
  CHECK(*two.spread >= 0);
  CHECK(*number_of(two.values, "moved_bytes") > 0);
  CHECK(number_of(two.values, "moved_bytes") == number_of(five.values, "moved_bytes"));
  CHECK_THROWS_AS(measure_step(step, 1, {.warm_up = 0, .counted = 2}), Error);
}

}  // namespace
}  // namespace sextant::plan_sweep_test
