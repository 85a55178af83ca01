// One point per number of classes and way to hold them.
#include "experiments/class_split/class_split.h"

#include "experiments/planned/measured_step.h"
#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/shapes.h"
#include "io/svg_chart.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant::class_split {

namespace {

constexpr std::int64_t kBatchPerDevice = 64;
constexpr std::array<std::int64_t, 7> kClasses = {50'000,    200'000,   1'000'000, 2'000'000,
                                                  4'000'000, 8'000'000, 13'500'000};

struct Holding {
  const char* name;
  std::int64_t devices;
  const char* pin;  // of the head's weight
};
constexpr std::array<Holding, 3> kHoldings = {
    {{"one", 1, ""}, {"copied", 8, ""}, {"split", 8, " pin=head.weight:(S(1),B)"}}};

std::string name_of(const std::string& holding, std::int64_t classes) {
  return fmt::format("{}_{}k", holding, classes / 1000);
}

SweepPoint point_of(const Holding& holding, std::int64_t classes) {
  const PlannedStep step = {
      .plan_or_model = fmt::format("class_head:features=512,hidden=512,classes={}", classes),
      .cluster = "dgx1-v100:nodes=1",
      .strategy =
          fmt::format("dp={} micro_batch={}{}", holding.devices, kBatchPerDevice, holding.pin),
      .optimizer = "momentum",
      .global_batch = holding.devices * kBatchPerDevice,
      .dtype = "f16"};
  SweepPoint point = {.name = name_of(holding.name, classes), .parameters = to_fields(step)};
  point.parameters.emplace_back("classes", static_cast<double>(classes));
  return point;
}

// On four CPU ranks, where the head dwarfs the rest already.
SweepPoint measured_point(const char* name, const char* pin) {
  constexpr std::int64_t kClassesHere = 5'000;
  SweepPoint point = {
      .name = fmt::format("{}_{}k_cpu", name, kClassesHere / 1000),
      .way = ResultWay::kMeasured,
      .parameters = to_fields({.plan_or_model = fmt::format(
                                   "class_head:features=128,hidden=128,classes={}", kClassesHere),
                               .cluster = "cpu:ranks=4,memory=2GiB",
                               .strategy = fmt::format("dp=4 micro_batch=8{}", pin),
                               .optimizer = "momentum",
                               .global_batch = 32,
                               .dtype = "f32"})};
  point.parameters.emplace_back("classes", static_cast<double>(kClassesHere));
  return point;
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Holding& holding : kHoldings)
    for (std::size_t index = 0; index < kClasses.size(); ++index)
      if (!quick || index % 3 == 0) points.push_back(point_of(holding, kClasses[index]));
  points.push_back(measured_point("copied", ""));
  points.push_back(measured_point("split", kHoldings.back().pin));
  return points;
}

// The most that fits; nothing where a number of classes was not tried.
std::optional<std::int64_t> most_classes(const ResultRows& rows, const std::string& holding) {
  std::int64_t most = 0;
  for (const std::int64_t classes : kClasses) {
    const std::optional<bool> fits = rows.is_feasible(name_of(holding, classes));
    if (!fits) return std::nullopt;
    if (*fits) most = classes;
  }
  return most;
}

ShapeClaim more_fit(const ResultRows& rows) {
  const std::string statement = "the split fits at least four times as many classes";
  const auto split = most_classes(rows, "split"), copied = most_classes(rows, "copied");
  if (!split || !copied) return {statement, std::nullopt, "a number of classes was not tried"};
  return {statement, *split >= 4 * *copied,
          fmt::format("of {} numbers of classes, {} is the most that fit split, {} copied",
                      kClasses.size(), *split, *copied)};
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  return {
      ratio_shape(rows, "at a million classes the split is at least three times as fast",
                  {"samples_per_s", "samples/s"}, name_of("split", 1'000'000),
                  name_of("copied", 1'000'000), {.least = 3}),
      ratio_shape(rows, "eight devices, split, have more than four times the rate of one",
                  {"samples_per_s", "samples/s"}, name_of("split", 1'000'000),
                  name_of("one", 1'000'000), {.least = 4}),
      more_fit(rows),
      ratio_shape(rows, "on four CPU ranks the split moves less than half of the bytes",
                  {"moved_bytes", "bytes moved"}, "split_5k_cpu", "copied_5k_cpu", {.most = 0.5}),
      ratio_shape(rows, "on four CPU ranks the split is faster", {"step_s", "step"}, "split_5k_cpu",
                  "copied_5k_cpu", {.most = 1})};
}

std::vector<Figure> figures(const ResultRows& rows) {
  Chart chart = {.title = "A class head on V100: samples/s over classes",
                 .x = {.title = "classes", .logarithmic = true},
                 .y = {.title = "samples/s", .logarithmic = true}};
  for (const Holding& holding : kHoldings) {
    ChartSeries series = {.name = fmt::format("{}, {} devices", holding.name, holding.devices),
                          .mark = ChartMark::kLineAndPoints};
    for (const std::int64_t classes : kClasses)
      if (const auto rate = rows.value(name_of(holding.name, classes), "samples_per_s"))
        series.points.push_back({static_cast<double>(classes), *rate});
    chart.series.push_back(std::move(series));
  }
  return {{"rate.svg", to_svg(chart)}};
}

}  // namespace

Experiment experiment() {
  return {
      .name = "class-split",
      .question =
          "How many classes fit, and at what rate, when a classifier is split by classes "
          "(arXiv 2110.15032, figures 11 and 12)?",
      .expectation =
          "several times as many classes on eight devices, and a higher rate at any number of them",
      .baseline = "data parallelism, while its weights fit",
      .columns = {{"samples_per_s", "samples", "1/s"},
                  {"step_s", "step", "s"},
                  {"memory_bytes", "memory", "B"},
                  {"arena_bytes", "arena", "B"},
                  {"moved_bytes", "moved", "B"}},
      .points = points,
      .evaluate = evaluate_planned_point,
      .shapes = shapes,
      .figures = figures};
}

}  // namespace sextant::class_split
