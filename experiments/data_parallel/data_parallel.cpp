// ResNet-50 on 1 to 32 devices, in both types.
#include "experiments/data_parallel/data_parallel.h"

#include "experiments/planned/measured_step.h"
#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/shapes.h"
#include "io/svg_chart.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace sextant::data_parallel {

namespace {

struct Workload {
  const char* name;
  const char* model;
  const char* dtype;
  std::int64_t batch;  // per device
};
constexpr std::array<Workload, 2> kWorkloads = {
    {{"resnet50_f32", "resnet50", "f32", 128}, {"resnet50_f16", "resnet50", "f16", 256}}};
constexpr std::array<std::int64_t, 6> kRanks = {1, 2, 4, 8, 16, 32};

struct Published {
  const char* workload;
  std::int64_t ranks;
  double samples_per_s;
};
constexpr std::array<Published, 5> kPublished = {{{"resnet50_f32", 1, 397.6},
                                                  {"resnet50_f32", 32, 12412},
                                                  {"resnet50_f16", 1, 1472.7},
                                                  {"resnet50_f16", 8, 10629},
                                                  {"resnet50_f16", 32, 33141}}};

std::string name_of(const std::string& workload, std::int64_t ranks) {
  return fmt::format("{}_{}", workload, ranks);
}

SweepPoint point_of(const Workload& workload, std::int64_t ranks) {
  const PlannedStep step = {.plan_or_model = workload.model,
                            .cluster = "dgx1-v100:nodes=4",
                            .strategy = fmt::format("dp={} micro_batch={}", ranks, workload.batch),
                            .optimizer = "momentum",
                            .global_batch = ranks * workload.batch,
                            .dtype = workload.dtype};
  SweepPoint point = {.name = name_of(workload.name, ranks), .parameters = to_fields(step)};
  point.parameters.emplace_back("ranks", static_cast<double>(ranks));
  for (const Published& published : kPublished)
    if (published.workload == std::string(workload.name) && published.ranks == ranks)
      point.reference = {{"samples_per_s", published.samples_per_s}};
  return point;
}

constexpr std::array<std::int64_t, 3> kRanksHere = {1, 2, 4};

// On CPU ranks, which share the cores of this machine: the work grows with them.
SweepPoint measured_point(std::int64_t ranks) {
  SweepPoint point = {
      .name = fmt::format("conv_{}_cpu", ranks),
      .way = ResultWay::kMeasured,
      .parameters =
          to_fields({.plan_or_model = "conv:blocks=1x1,channels=8x16,height=16,width=16,classes=10",
                     .cluster = fmt::format("cpu:ranks={},memory=2GiB", ranks),
                     .strategy = fmt::format("dp={} micro_batch=4", ranks),
                     .optimizer = "momentum",
                     .global_batch = 4 * ranks,
                     .dtype = "f32"})};
  point.parameters.emplace_back("ranks", static_cast<double>(ranks));
  return point;
}

// What a ring sends: every replica 2 (n - 1) / n of the gradients, n replicas.
ShapeClaim ring_shape(const ResultRows& rows) {
  return ratio_shape(rows, "on CPU ranks four replicas send three times what two send",
                     {"moved_bytes", "bytes moved"}, "conv_4_cpu", "conv_2_cpu",
                     {.least = 2.9, .most = 3.1});
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Workload& workload : kWorkloads)
    for (const std::int64_t ranks : kRanks)
      if (!quick || ranks == 1 || ranks == 32) points.push_back(point_of(workload, ranks));
  for (const std::int64_t ranks : kRanksHere) points.push_back(measured_point(ranks));
  return points;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  const RowQuantity rate = {"samples_per_s", "samples/s"};
  std::vector<ShapeClaim> shapes = {
      ratio_shape(rows, "32 devices have more than 28 times the rate of one in f32", rate,
                  "resnet50_f32_32", "resnet50_f32_1", {.least = 28, .most = 32.01}),
      ratio_shape(rows, "and more than 20 times in f16", rate, "resnet50_f16_32", "resnet50_f16_1",
                  {.least = 20, .most = 32.01}),
      ring_shape(rows)};
  ShapeClaim& narrower = shapes.emplace_back();
  narrower.statement = "f16 scales less than f32";
  const auto f32 = rows.value("resnet50_f32_32", rate.key),
             f32_one = rows.value("resnet50_f32_1", rate.key);
  const auto f16 = rows.value("resnet50_f16_32", rate.key),
             f16_one = rows.value("resnet50_f16_1", rate.key);
  if (f32 && f32_one && f16 && f16_one) {
    narrower.holds = *f16 / *f16_one < *f32 / *f32_one;
    narrower.detail = fmt::format("{:.1f} and {:.1f} times one device, published 22.5 and 31.2",
                                  *f16 / *f16_one, *f32 / *f32_one);
  } else {
    narrower.detail = "a row on 1 or 32 devices is missing";
  }
  return shapes;
}

std::vector<Figure> figures(const ResultRows& rows) {
  Chart chart = {.title = "ResNet-50 under data parallelism on V100",
                 .x = {.title = "devices", .logarithmic = true},
                 .y = {.title = "images/s", .logarithmic = true}};
  for (const Workload& workload : kWorkloads) {
    ChartSeries own = {.name = workload.name, .mark = ChartMark::kLineAndPoints};
    ChartSeries there = {.name = fmt::format("{}, published", workload.name)};
    for (const std::int64_t ranks : kRanks) {
      const std::string point = name_of(workload.name, ranks);
      const auto x = static_cast<double>(ranks);
      if (const auto value = rows.value(point, "samples_per_s")) own.points.push_back({x, *value});
      if (const auto value = rows.reference(point, "samples_per_s"))
        there.points.push_back({x, *value});
    }
    chart.series.push_back(std::move(own));
    chart.series.push_back(std::move(there));
  }
  return {{"throughput.svg", to_svg(chart)}};
}

}  // namespace

Experiment experiment() {
  return {.name = "data-parallel",
          .question =
              "What do 1 to 32 V100 give under data parallelism alone (arXiv 2110.15032, "
              "figure 10)?",
          .expectation = "nearly linear in f32, less so in f16, where compute is shorter",
          .baseline = "one device, times their number",
          .columns = {{"samples_per_s", "images", "1/s", "samples_per_s"},
                      {"step_s", "step", "s"},
                      {"exposed_communication_s", "exposed communication", "s"},
                      {"memory_bytes", "memory", "B"},
                      {"arena_bytes", "arena", "B"},
                      {"moved_bytes", "moved", "B"}},
          .points = points,
          .evaluate = evaluate_planned_point,
          .shapes = shapes,
          .figures = figures};
}

}  // namespace sextant::data_parallel
