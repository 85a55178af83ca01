// ZeRO stages with and without recomputation.
#include "experiments/optimizer_sharding/optimizer_sharding.h"

#include "experiments/planned/measured_step.h"
#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/shapes.h"

#include <fmt/core.h>

#include <array>
#include <string>

namespace sextant::optimizer_sharding {

namespace {

constexpr double kMiB = 1048576;  // nvidia-smi's MB
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
    point.reference = {{"samples_per_s", 239.0}, {"memory_bytes", 11301.0 * kMiB}};
  if (is_published && zero == 1)
    point.reference = {{"samples_per_s", 235.0}, {"memory_bytes", 9547.0 * kMiB}};
  return point;
}

// On four CPU ranks.
SweepPoint measured_point(int zero) {
  return {
      .name = fmt::format("zero{}_cpu", zero),
      .way = ResultWay::kMeasured,
      .parameters = to_fields({.plan_or_model = "gpt:layers=4,hidden=64,heads=4,vocab=256,seq=32",
                               .cluster = "cpu:ranks=4,memory=2GiB",
                               .strategy = fmt::format("dp=4 micro_batch=1 zero={}", zero),
                               .global_batch = 4,
                               .dtype = "f32"})};
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const char* recompute : kRecompute)
    for (const int zero : {0, 1, 2, 3})
      if (!quick || zero < 2) points.push_back(point_of(zero, recompute));
  for (const int zero : {0, 1, 2, 3}) points.push_back(measured_point(zero));
  return points;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  const RowQuantity memory = {"memory_bytes", "bytes"}, rate = {"samples_per_s", "samples/s"};
  return {ratio_shape(rows, "sharing the optimizer's state saves memory", memory, "zero1_none",
                      "zero0_none", {.most = 0.95}),
          ratio_shape(rows, "it changes the throughput by less than 5 %", rate, "zero1_none",
                      "zero0_none", {.least = 0.95, .most = 1.05}),
          ratio_shape(rows, "recomputation saves memory", memory, "zero0_full", "zero0_none",
                      {.most = 0.9}),
          ratio_shape(rows, "it costs more time than sharing does", rate, "zero0_full",
                      "zero1_none", {.most = 1}),
          ratio_shape(rows, "on four CPU ranks sharing saves memory", {"arena_bytes", "arena"},
                      "zero1_cpu", "zero0_cpu", {.most = 0.9}),
          ratio_shape(rows, "on four CPU ranks sharing moves the same bytes",
                      {"moved_bytes", "bytes moved"}, "zero1_cpu", "zero0_cpu",
                      {.least = 0.98, .most = 1.02})};
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
                      {"memory_bytes", "memory", "B", "memory_bytes"},
                      {"arena_bytes", "arena", "B"},
                      {"moved_bytes", "moved", "B"}},
          .points = points,
          .evaluate = evaluate_planned_point,
          .shapes = shapes};
}

}  // namespace sextant::optimizer_sharding
