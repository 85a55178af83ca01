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
#include <utility>
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
constexpr std::int64_t kSplitDevices = 8;
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

// Backbones of InsightFace with the classes of MS1MV2 (85,742), in f16.
struct Backbone {
  const char* name;
  const char* model;
  std::int64_t batch;           // per device
  double one_rate, split_rate;  // published: on one device, and on eight with the head split
};
constexpr std::array<Backbone, 2> kBackbones = {
    {{"r100", "face-r100", 64, 245.3, 1854}, {"mobile", "mobile-face-net", 256, 1963.6, 14050}}};

std::string backbone_name(const Backbone& backbone, const Holding& holding) {
  return fmt::format("{}_{}", backbone.name, holding.name);
}

SweepPoint backbone_point(const Backbone& backbone, const Holding& holding) {
  const bool is_one = holding.devices == 1, is_copied = std::string(holding.name) == "copied";
  SweepPoint point = {
      .name = backbone_name(backbone, holding),
      .parameters = to_fields({.plan_or_model = backbone.model,
                               .cluster = "dgx1-v100:nodes=1",
                               .strategy = fmt::format("dp={} micro_batch={}{}", holding.devices,
                                                       backbone.batch, holding.pin),
                               .optimizer = "momentum",
                               .global_batch = holding.devices * backbone.batch,
                               .dtype = "f16"})};
  if (!is_copied)
    point.reference = {{"samples_per_s", is_one ? backbone.one_rate : backbone.split_rate}};
  return point;
}

// R100 until memory ends, with logits of a tenth of the classes of a step.
constexpr std::array<std::int64_t, 6> kSampledOne = {1'000'000, 1'500'000, 2'000'000,
                                                     2'500'000, 3'000'000, 4'000'000};
constexpr std::array<std::int64_t, 6> kSampledSplit = {8'000'000,  10'000'000, 12'000'000,
                                                       13'500'000, 16'000'000, 20'000'000};
constexpr double kPublishedOne = 2.0e6, kPublishedSplit = 13.5e6;

std::string sampled_name(std::int64_t devices, std::int64_t classes) {
  return fmt::format("r100_sampled_{}_{}k", devices, classes / 1000);
}

SweepPoint sampled_point(std::int64_t devices, std::int64_t classes) {
  constexpr std::int64_t kShare = 10, kBuckets = 8;
  SweepPoint point = {
      .name = sampled_name(devices, classes),
      .parameters =
          to_fields({.plan_or_model = fmt::format("face-r100:classes={},sampled={},buckets={}",
                                                  classes, classes / kShare, kBuckets),
                     .cluster = "dgx1-v100:nodes=1",
                     .strategy = fmt::format("dp={} micro_batch={}{}", devices, kBatchPerDevice,
                                             devices > 1 ? " pin=head.weight:(S(0),B)" : ""),
                     .optimizer = "momentum",
                     .global_batch = devices * kBatchPerDevice,
                     .dtype = "f16"})};
  point.parameters.emplace_back("classes", static_cast<double>(classes));
  return point;
}

// A small net and its head on four CPU ranks, with all classes or a tenth of them.
SweepPoint measured_face_point(const char* name, const char* sampled, const char* pin) {
  return {.name = name,
          .way = ResultWay::kMeasured,
          .parameters =
              to_fields({.plan_or_model = fmt::format(
                             "face_net:blocks=1x1,channels=8x16,strides=2x2,height=16,width=16,"
                             "stem_channels=8,features=128,classes=40000{}",
                             sampled),
                         .cluster = "cpu:ranks=4,memory=2GiB",
                         .strategy = fmt::format("dp=4 micro_batch=32 pin={}", pin),
                         .optimizer = "momentum",
                         .global_batch = 128,
                         .dtype = "f32"})};
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
  for (const Backbone& backbone : kBackbones)
    for (const Holding& holding : kHoldings)
      if (!quick) points.push_back(backbone_point(backbone, holding));
  for (const std::int64_t classes : kSampledOne)
    if (!quick) points.push_back(sampled_point(1, classes));
  for (const std::int64_t classes : kSampledSplit)
    if (!quick) points.push_back(sampled_point(kSplitDevices, classes));
  points.push_back(measured_face_point("face_all_cpu", "", "head.weight:(S(1),B)"));
  points.push_back(
      measured_face_point("face_sampled_cpu", ",sampled=4000,buckets=4", "head.weight:(S(0),B)"));
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

// The most of `tried` that fits with sampled classes; nothing where one was not tried.
template <std::size_t kCount>
std::optional<std::int64_t> most_sampled(const ResultRows& rows, std::int64_t devices,
                                         const std::array<std::int64_t, kCount>& tried) {
  std::int64_t most = 0;
  for (const std::int64_t classes : tried) {
    const std::optional<bool> fits = rows.is_feasible(sampled_name(devices, classes));
    if (!fits) return std::nullopt;
    if (*fits) most = classes;
  }
  return most;
}

ShapeClaim sampled_fit(const ResultRows& rows) {
  const std::string statement =
      "with sampled classes as many fit as were published, on one device and on eight";
  const auto one = most_sampled(rows, 1, kSampledOne);
  const auto split = most_sampled(rows, kSplitDevices, kSampledSplit);
  if (!one || !split) return {statement, std::nullopt, "a number of classes was not tried"};
  return {
      statement,
      static_cast<double>(*one) >= kPublishedOne && static_cast<double>(*split) >= kPublishedSplit,
      fmt::format("{} of those tried on one, published {:.0f}; {} on eight, published {:.0f}", *one,
                  kPublishedOne, *split, kPublishedSplit)};
}

std::vector<ShapeClaim> backbone_shapes(const ResultRows& rows) {
  std::vector<ShapeClaim> shapes;
  for (const Backbone& backbone : kBackbones)
    shapes.push_back(ratio_shape(
        rows,
        fmt::format("{}: eight devices with a split head have more than six times the rate of one",
                    backbone.name),
        {"samples_per_s", "samples/s"}, backbone_name(backbone, kHoldings.back()),
        backbone_name(backbone, kHoldings.front()), {.least = 6}));
  return shapes;
}

std::vector<ShapeClaim> head_shapes(const ResultRows& rows) {
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

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  std::vector<ShapeClaim> shapes = head_shapes(rows);
  for (ShapeClaim& shape : backbone_shapes(rows)) shapes.push_back(std::move(shape));
  shapes.push_back(sampled_fit(rows));
  shapes.push_back(
      ratio_shape(rows, "on four CPU ranks a tenth of the classes makes a step shorter",
                  {"step_s", "step"}, "face_sampled_cpu", "face_all_cpu", {.most = 1}));
  return shapes;
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
      .columns = {{"samples_per_s", "samples", "1/s", "samples_per_s"},
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
