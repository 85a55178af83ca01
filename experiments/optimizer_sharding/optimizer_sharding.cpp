// ZeRO stages with and without recomputation.
#include "experiments/optimizer_sharding/optimizer_sharding.h"

#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/shapes.h"

#include <fmt/core.h>

#include <array>
#include <string>

namespace sextant::optimizer_sharding {

namespace {

constexpr std::array<const char*, 2> kRecompute = {"none", "full"};

std::string name_of(int zero, const char* recompute) {
  return fmt::format("zero{}_{}", zero, recompute);
}

SweepPoint point_of(int zero, const char* recompute) {
  const PlannedStep step = {
      .plan_or_model = "gpt2-124m",
      .cluster = "dgx1-v100:nodes=1",
      .strategy = fmt::format("dp=8 micro_batch=4 zero={} recompute={}", zero, recompute),
      .global_batch = 32,
      .dtype = "f16"};
  SweepPoint point = {.name = name_of(zero, recompute), .parameters = to_fields(step)};
  const bool is_published = recompute == std::string("none");
  if (is_published && zero == 0)
    point.reference = {{"samples_per_s", 239.0}, {"memory_bytes", 11301.0 * 1048576}};
  if (is_published && zero == 1)
    point.reference = {{"samples_per_s", 235.0}, {"memory_bytes", 9547.0 * 1048576}};
  return point;
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const char* recompute : kRecompute)
    for (const int zero : {0, 1, 2, 3})
      if (!quick || zero < 2) points.push_back(point_of(zero, recompute));
  return points;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  const RowQuantity memory = {"memory_bytes", "bytes"}, rate = {"samples_per_s", "samples/s"};
  return {ratio_shape(rows, "sharing the optimizer's state saves memory", memory, "zero1_none",
                      "zero0_none", {.most = 0.95}),
          ratio_shape(rows, "it costs less than 5 % of the throughput", rate, "zero1_none",
                      "zero0_none", {.least = 0.95}),
          ratio_shape(rows, "recomputation saves memory", memory, "zero0_full", "zero0_none",
                      {.most = 0.9}),
          ratio_shape(rows, "it costs more time than sharing does", rate, "zero0_full",
                      "zero1_none", {.most = 1})};
}

}  // namespace

Experiment experiment() {
  return {.name = "optimizer-sharding",
          .question =
              "What does sharing the optimizer's state save and cost (arXiv 2110.15032, "
              "figures 14 and 15)?",
          .expectation = "about 15 % less memory for about 2 % less throughput",
          .baseline = "plain data parallelism",
          .columns = {{"step_s", "step", "s"},
                      {"samples_per_s", "samples", "1/s", "samples_per_s"},
                      {"memory_bytes", "memory", "B", "memory_bytes"}},
          .points = points,
          .evaluate =
              [](const SweepPoint& point) {
                return simulate_step(planned_step_from(point.parameters));
              },
          .shapes = shapes};
}

}  // namespace sextant::optimizer_sharding
