// One point per vocabulary and split.
#include "experiments/wide_deep/wide_deep.h"

#include "experiments/planned/measured_step.h"
#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/shapes.h"
#include "io/svg_chart.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

namespace sextant::wide_deep {

namespace {

constexpr double kMiB = 1048576;
constexpr std::int64_t kBatch = 16384, kRanks = 8;

struct Published {
  std::int64_t rows;
  double step_ms, memory_mb;
};
constexpr std::array<Published, 8> kPublished = {{{3'200'000, 13.84, 1533},
                                                  {6'400'000, 13.95, 1613},
                                                  {12'800'000, 13.85, 1775},
                                                  {25'600'000, 13.77, 2087},
                                                  {51'200'000, 13.97, 2713},
                                                  {102'400'000, 13.85, 3945},
                                                  {204'800'000, 13.79, 6435},
                                                  {409'600'000, 13.85, 11423}}};

struct Split {
  const char* name;
  const char* word;  // of the table over dp
};
constexpr std::array<Split, 3> kSplits = {{{"rows", "S(0)"}, {"columns", "S(1)"}, {"whole", "B"}}};

std::string name_of(const Split& split, std::int64_t rows) {
  return fmt::format("{}_{:.4g}M", split.name, static_cast<double>(rows) / 1e6);
}

SweepPoint table_point(std::string name, const Split& split, std::int64_t rows,
                       std::int64_t ranks) {
  const PlannedStep step = {
      .plan_or_model =
          fmt::format("wide_deep:deep_vocab={},embedding=16,hidden=1024x1024x1024x1024x1024x"
                      "1024x1024",
                      rows),
      .cluster = fmt::format("dgx1-v100:nodes={}", ranks / kRanks),
      .strategy = fmt::format("dp={0} micro_batch={1} pin=deep.weight:({2},B) "
                              "pin=deep.grad_weight:({2},B)",
                              ranks, kBatch / ranks, split.word),
      .optimizer = "adamw",
      .global_batch = kBatch,
      .dtype = "f32"};
  SweepPoint point = {.name = std::move(name), .parameters = to_fields(step)};
  point.parameters.emplace_back("vocabulary", static_cast<double>(rows));
  return point;
}

// Four nodes, of which the paper has no numbers: as many rows as fit one, and twice as many.
constexpr std::int64_t kManyRanks = 32;
constexpr std::array<std::int64_t, 2> kManyRows = {409'600'000, 819'200'000};

std::string many_name(std::int64_t rows) {
  return fmt::format("{}_on_{}", name_of(kSplits.front(), rows), kManyRanks);
}

SweepPoint point_of(const Split& split, const Published& published) {
  SweepPoint point = table_point(name_of(split, published.rows), split, published.rows, kRanks);
  // Milliseconds and MB as published; nvidia-smi's MB are MiB.
  if (split.word != std::string("B"))
    point.reference = {{"step_s", published.step_ms / 1e3},
                       {"memory_bytes", published.memory_mb * kMiB}};
  return point;
}

// On four CPU ranks.
SweepPoint measured_point(const Split& split, std::int64_t rows) {
  SweepPoint point = {
      .name = name_of(split, rows) + "_cpu",
      .way = ResultWay::kMeasured,
      .parameters = to_fields(
          {.plan_or_model = fmt::format("wide_deep:deep_vocab={},embedding=16,hidden=64x64", rows),
           .cluster = "cpu:ranks=4,memory=2GiB",
           .strategy = fmt::format("dp=4 micro_batch=64 pin=deep.weight:({0},B) "
                                   "pin=deep.grad_weight:({0},B)",
                                   split.word),
           .optimizer = "adamw",
           .global_batch = 256,
           .dtype = "f32"})};
  point.parameters.emplace_back("vocabulary", static_cast<double>(rows));
  return point;
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Split& split : kSplits)
    for (std::size_t index = 0; index < kPublished.size(); ++index)
      if (!quick || index % 3 == 0) points.push_back(point_of(split, kPublished[index]));
  for (const std::int64_t rows : kManyRows)
    if (!quick) points.push_back(table_point(many_name(rows), kSplits.front(), rows, kManyRanks));
  for (const Split& split : kSplits)
    for (const std::int64_t rows : {50'000, 200'000}) points.push_back(measured_point(split, rows));
  return points;
}

PointResult evaluate(const SweepPoint& point) {
  PointResult result = evaluate_planned_point(point);
  if (point.way == ResultWay::kMeasured) return result;
  result.values.emplace_back(
      "step_without_optimizer_s",
      *number_of(result.values, "step_s") - *number_of(result.values, "optimizer_s"));
  return result;
}

ShapeClaim fits_shape(const ResultRows& rows, const std::string& point, bool wanted,
                      std::string statement) {
  const std::optional<bool> fits = rows.is_feasible(point);
  if (!fits) return {std::move(statement), std::nullopt, fmt::format("{} is missing", point)};
  return {std::move(statement), *fits == wanted,
          fmt::format("{} {}", point, *fits ? "fits" : "does not fit")};
}

// What twice the rows add is twice what as many added before.
ShapeClaim linear_memory(const ResultRows& rows) {
  const std::string statement = "memory is linear in the rows";
  const auto bytes = [&](std::int64_t table) {
    return rows.value(name_of(kSplits[0], table), "memory_bytes");
  };
  const auto least = bytes(102'400'000), middle = bytes(204'800'000), most = bytes(409'600'000);
  if (!least || !middle || !most) return {statement, std::nullopt, "a row is missing"};
  const double ratio = (*most - *middle) / (*middle - *least);
  return {statement, ratio > 1.98 && ratio < 2.02,
          fmt::format("204.8 million rows more take {:.3f} times what 102.4 million took", ratio)};
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  const std::string least = name_of(kSplits[0], 3'200'000), most = name_of(kSplits[0], 204'800'000);
  return {
      linear_memory(rows),
      ratio_shape(rows, "the step without its optimizer is flat over the vocabulary",
                  {"step_without_optimizer_s", "step without optimizer"},
                  name_of(kSplits[0], 409'600'000), least, {.least = 0.9, .most = 1.1}),
      ratio_shape(rows, "the whole step is flat", {"step_s", "step"}, most, least,
                  {.least = 0.9, .most = 1.1}),
      ratio_shape(rows, "splits by rows and by columns take the same memory",
                  {"memory_bytes", "memory"}, most, name_of(kSplits[1], 204'800'000),
                  {.least = 0.95, .most = 1.05}),
      fits_shape(rows, name_of(kSplits[0], 409'600'000), true,
                 "409.6 million rows fit when they are split"),
      fits_shape(rows, name_of(kSplits[2], 409'600'000), false,
                 "409.6 million rows do not fit whole"),
      fits_shape(rows, many_name(kManyRows.back()), true, "819.2 million rows fit on 32 devices"),
      ratio_shape(rows, "on four CPU ranks split tables take less than half of the arena",
                  {"arena_bytes", "arena"}, "rows_0.2M_cpu", "whole_0.2M_cpu", {.most = 0.5}),
      ratio_shape(rows, "on four CPU ranks a split table moves the same bytes at any size",
                  {"moved_bytes", "bytes moved"}, "rows_0.2M_cpu", "rows_0.05M_cpu",
                  {.least = 0.99, .most = 1.01})};
}

std::vector<Figure> figures(const ResultRows& rows) {
  Chart chart = {.title = "Wide & Deep on 8 V100: memory over vocabulary",
                 .x = {.title = "rows of the table", .logarithmic = true},
                 .y = {.title = "GiB per device"}};
  for (const Split& split : kSplits) {
    ChartSeries series = {.name = split.name, .mark = ChartMark::kLineAndPoints};
    ChartSeries there = {.name = "published", .mark = ChartMark::kPoints};
    for (const Published& published : kPublished) {
      const std::string point = name_of(split, published.rows);
      const auto x = static_cast<double>(published.rows);
      if (const auto bytes = rows.value(point, "memory_bytes"))
        series.points.push_back({x, *bytes / (1024 * kMiB)});
      if (const auto bytes = rows.reference(point, "memory_bytes"))
        there.points.push_back({x, *bytes / (1024 * kMiB)});
    }
    chart.series.push_back(std::move(series));
    if (&split == &kSplits.front()) chart.series.push_back(std::move(there));
  }
  return {{"memory.svg", to_svg(chart)}};
}

}  // namespace

Experiment experiment() {
  return {.name = "wide-deep",
          .question =
              "What does a step of Wide & Deep take as its tables grow (arXiv 2110.15032, "
              "figure 13)?",
          .expectation =
              "memory is linear in the vocabulary and the step is flat; not so here, where the "
              "optimizer updates every row",
          .baseline = "the whole table on every device, while it fits",
          .columns = {{"step_s", "step", "s", "step_s"},
                      {"step_without_optimizer_s", "without optimizer", "s"},
                      {"memory_bytes", "memory", "B", "memory_bytes"},
                      {"arena_bytes", "arena", "B"},
                      {"moved_bytes", "moved", "B"}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes,
          .figures = figures};
}

}  // namespace sextant::wide_deep
