// The sixteen published cases; a case's label says all of it.
#include "experiments/hybrid_gpt/hybrid_gpt.h"

#include "experiments/planned/measured_step.h"
#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/shapes.h"
#include "io/svg_chart.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>

namespace sextant::hybrid_gpt {

namespace {

constexpr std::int64_t kSequence = 2048, kVocab = 51200;
constexpr std::int64_t kMicroBatches = 32;  // of a pipeline, assumed

struct Case {
  std::int64_t dp, tp, pp, batch, hidden, layers;
  double samples_per_s, tflops;  // published

  std::string name() const {
    return fmt::format("{}x{}x{}_{}_{}x{}", dp, tp, pp, batch, hidden, layers);
  }
  std::int64_t ranks() const { return dp * tp * pp; }
  std::int64_t heads() const { return hidden == 768 ? 12 : hidden / 96; }
  std::int64_t micro_batch() const { return pp == 1 ? batch / dp : batch / dp / kMicroBatches; }
};

constexpr std::array<Case, 16> kCases = {{{1, 1, 1, 2, 1536, 16, 4.92, 49.43},
                                          {8, 1, 1, 16, 1536, 16, 38.28, 48.03},
                                          {16, 1, 1, 32, 1536, 16, 65.35, 41.00},
                                          {32, 1, 1, 64, 1536, 16, 123.40, 38.71},
                                          {1, 1, 1, 8, 768, 12, 15.23, 37.98},
                                          {1, 8, 1, 16, 1536, 16, 24.92, 31.26},
                                          {1, 16, 1, 16, 3072, 16, 3.32, 7.25},
                                          {1, 32, 1, 16, 3072, 32, 1.68, 3.57},
                                          {2, 4, 1, 16, 1536, 16, 29.65, 37.20},
                                          {4, 2, 1, 16, 1536, 16, 29.42, 36.91},
                                          {2, 8, 1, 16, 2304, 24, 12.61, 23.81},
                                          {4, 8, 1, 32, 2304, 24, 21.62, 20.41},
                                          {8, 1, 4, 512, 1536, 16, 127.80, 40.09},
                                          {1, 8, 4, 512, 2304, 24, 26.67, 25.18},
                                          {2, 4, 4, 512, 2304, 24, 39.03, 36.85},
                                          {2, 8, 2, 512, 2304, 24, 35.62, 33.62}}};

// Forward, backward and the repeated forward of a sample: 96 s l h^2 (1 + s / 6h + V / 16lh).
double flops_per_sample(const Case& item) {
  const auto s = static_cast<double>(kSequence), h = static_cast<double>(item.hidden);
  const auto l = static_cast<double>(item.layers), v = static_cast<double>(kVocab);
  return 96 * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
}

SweepPoint point_of(const Case& item) {
  const PlannedStep step = {
      .plan_or_model = fmt::format("gpt:layers={},hidden={},heads={},vocab={},seq={}", item.layers,
                                   item.hidden, item.heads(), kVocab, kSequence),
      .cluster = "dgx1-v100:nodes=4",
      .strategy = fmt::format("dp={} tp={} pp={} micro_batch={} schedule=1f1b recompute=full",
                              item.dp, item.tp, item.pp, item.micro_batch()),
      .global_batch = item.batch,
      .dtype = "f16"};
  return {.name = item.name(),
          .parameters = to_fields(step),
          .reference = {{"samples_per_s", item.samples_per_s}, {"tflops_per_gpu", item.tflops}}};
}

// On four CPU ranks.
constexpr std::array<const char*, 4> kHere = {"dp=4", "dp=2 tp=2", "tp=4", "dp=2 pp=2"};

SweepPoint measured_point(const std::string& strategy) {
  return {
      .name = strategy + " cpu",
      .way = ResultWay::kMeasured,
      .parameters = to_fields({.plan_or_model = "gpt:layers=4,hidden=64,heads=4,vocab=256,seq=32",
                               .cluster = "cpu:ranks=4,memory=2GiB",
                               .strategy = strategy + " micro_batch=1",
                               .global_batch = 8,
                               .dtype = "f32"})};
}

const Case* case_of(const std::string& name) {
  for (const Case& item : kCases)
    if (item.name() == name) return &item;
  return nullptr;
}

PointResult evaluate(const SweepPoint& point) {
  PointResult result = evaluate_planned_point(point);
  if (const Case* item = case_of(point.name))
    result.values.insert(
        result.values.begin() + 2,
        {"tflops_per_gpu", *number_of(result.values, "samples_per_s") * flops_per_sample(*item) /
                               static_cast<double>(item->ranks()) / 1e12});
  return result;
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Case& item : kCases)
    if (!quick || item.pp == 1) points.push_back(point_of(item));
  for (const char* strategy : kHere) points.push_back(measured_point(strategy));
  return points;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  const RowQuantity rate = {"tflops_per_gpu", "TFLOP/s per GPU"};
  return {
      ratio_shape(rows, "tensor parallelism over two nodes has less than half of one node's rate",
                  rate, "1x16x1_16_3072x16", "1x8x1_16_1536x16", {.most = 0.5}),
      ratio_shape(rows, "over four nodes it has less than over two", rate, "1x32x1_16_3072x32",
                  "1x16x1_16_3072x16", {.most = 0.8}),
      ratio_shape(rows, "inside a node data parallelism beats tensor parallelism", rate,
                  "8x1x1_16_1536x16", "1x8x1_16_1536x16", {.least = 1.2}),
      ratio_shape(rows, "four replicas of tp=2 beat one of tp=8", rate, "4x2x1_16_1536x16",
                  "1x8x1_16_1536x16", {.least = 1}),
      ratio_shape(rows, "a pipeline over nodes beats tensor parallelism over them", rate,
                  "1x8x4_512_2304x24", "1x32x1_16_3072x32", {.least = 2}),
      ratio_shape(rows, "on four CPU ranks tp=4 moves more bytes than dp=4",
                  {"moved_bytes", "bytes moved"}, "tp=4 cpu", "dp=4 cpu", {.least = 1.01})};
}

std::vector<Figure> figures(const ResultRows& rows) {
  Chart chart = {.title = "GPT on 1 to 32 V100: simulated beside published",
                 .x = {.title = "published TFLOP/s per GPU"},
                 .y = {.title = "simulated TFLOP/s per GPU"},
                 .diagonal = true};
  ChartSeries series = {.name = "cases"};
  for (const SweepRow& row : rows.all()) {
    const auto own = number_of(row.result.values, "tflops_per_gpu");
    const auto published = number_of(row.point.reference, "tflops_per_gpu");
    if (own && published) series.points.push_back({*published, *own, row.point.name});
  }
  chart.series.push_back(std::move(series));
  return {{"tflops.svg", to_svg(chart)}};
}

}  // namespace

Experiment experiment() {
  return {.name = "hybrid-gpt",
          .question =
              "What do hybrid strategies of GPT give on 1 to 32 V100 (arXiv 2110.15032, "
              "figure 16)?",
          .expectation = "tensor parallelism is cheap inside a node and collapses across nodes",
          .baseline = "data parallelism alone, wherever the model fits one GPU",
          .columns = {{"samples_per_s", "sequences", "1/s", "samples_per_s"},
                      {"tflops_per_gpu", "TFLOP/s per GPU", "", "tflops_per_gpu"},
                      {"memory_bytes", "memory", "B"},
                      {"arena_bytes", "arena", "B"},
                      {"moved_bytes", "moved", "B"}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes,
          .figures = figures};
}

}  // namespace sextant::hybrid_gpt
