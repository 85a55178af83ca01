// What holds of every experiment, without computing a point.
#include "experiments/catalogue/catalogue.h"

#include "core/base/error.h"
#include "experiments/planned/planned_step.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace sextant::catalogue_test {
namespace {

TEST_CASE("every experiment says what it asks, expects and could lose to") {
  std::set<std::string> names;
  for (const Experiment& experiment : all_experiments()) {
    CAPTURE(experiment.name);
    CHECK(names.insert(experiment.name).second);
    CHECK(experiment.question.ends_with("?"));
    CHECK_FALSE(experiment.expectation.empty());
    CHECK_FALSE(experiment.baseline.empty());
    CHECK_FALSE(experiment.columns.empty());
  }
}

TEST_CASE("quick points are some of all, and each has its own name") {
  for (const Experiment& experiment : all_experiments()) {
    CAPTURE(experiment.name);
    std::set<std::string> names;
    for (const SweepPoint& point : experiment.points(false)) CHECK(names.insert(point.name).second);
    const std::vector<SweepPoint> quick = experiment.points(true);
    CHECK_FALSE(quick.empty());
    CHECK(quick.size() < names.size());
    for (const SweepPoint& point : quick) CHECK(names.contains(point.name));
  }
}

// What a machine has free changes from one run to the next, and with it a cluster that takes it.
TEST_CASE("no point depends on how much memory is free") {
  for (const Experiment& experiment : all_experiments())
    for (const SweepPoint& point : experiment.points(false)) {
      const std::string cluster = word_of(point.parameters, "cluster");
      CAPTURE(point.name);
      CHECK((!cluster.starts_with("cpu") || cluster.find("memory=") != std::string::npos));
    }
}

TEST_CASE("without rows nothing can be said, and there is nothing to draw") {
  for (const Experiment& experiment : all_experiments()) {
    CAPTURE(experiment.name);
    const std::vector<SweepRow> no_rows;
    const ResultRows none(no_rows);
    const std::vector<ShapeClaim> shapes = experiment.shapes(none);
    CHECK_FALSE(shapes.empty());
    for (const ShapeClaim& shape : shapes) {
      CHECK_FALSE(shape.holds.has_value());
      CHECK_FALSE(shape.detail.empty());
    }
    if (experiment.figures)
      for (const Figure& figure : experiment.figures(none)) CHECK(figure.name.ends_with(".svg"));
  }
}

TEST_CASE("a planned step comes back from its parameters") {
  const PlannedStep step = {.plan_or_model = "gpt2-124m",
                            .cluster = "cpu:ranks=4",
                            .strategy = "dp=2 tp=2",
                            .optimizer = "sgd",
                            .global_batch = 8,
                            .sequence = 64,
                            .dtype = "f32"};
  const Fields fields = to_fields(step);
  CHECK(to_fields(planned_step_from(fields)) == fields);
  PlannedStep other = step;
  other.plan_or_model = "gpt2-medium";
  CHECK(word_of(to_fields(other), "identity") != word_of(fields, "identity"));
  other = step;
  other.cluster = "cpu:ranks=8";
  CHECK(word_of(to_fields(other), "identity") != word_of(fields, "identity"));
  other.cluster = "cpuu:ranks=8";
  CHECK_THROWS_AS(to_fields(other), Error);
}

TEST_CASE("a step says what its parts are, and refuses what does not fit") {
  PlannedStep step = {.plan_or_model = "gpt:layers=2,hidden=64,heads=4,vocab=128,seq=32",
                      .cluster = "dgx1-v100:nodes=1",
                      .strategy = "dp=2 tp=2 pp=2",
                      .global_batch = 8,
                      .dtype = "f16"};
  const PointResult result = simulate_step(step);
  double parts = 0;
  for (const char* part :
       {"compute_s", "exposed_communication_s", "bubble_s", "optimizer_s", "host_s"})
    parts += *number_of(result.values, part);
  CHECK(parts == doctest::Approx(*number_of(result.values, "step_s")));
  CHECK(*number_of(result.values, "samples_per_s") ==
        doctest::Approx(8 / *number_of(result.values, "step_s")));
  CHECK(*number_of(result.values, "memory_bytes") > *number_of(result.values, "arena_bytes"));
  step.plan_or_model = "gpt3-13b";
  CHECK_THROWS_WITH_AS(simulate_step(step), doctest::Contains("that a device has"), Error);
  step.strategy = "dp=64";
  CHECK_THROWS_WITH_AS(simulate_step(step), doctest::Contains("64 ranks"), Error);
}

}  // namespace
}  // namespace sextant::catalogue_test
