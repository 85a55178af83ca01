// ResNet-50 and BERT-base on 1 to 32 devices, in both types.
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
#include <string_view>
#include <utility>

namespace sextant::data_parallel {

namespace {

struct Workload {
  const char* name;
  const char* model;
  const char* optimizer;
  const char* dtype;
  std::int64_t batch;     // per device
  std::int64_t sequence;  // tokens of a sample
};
// Sequences of 128 tokens and clipping as DLPerf trains BERT; and without clipping.
constexpr std::array<Workload, 6> kWorkloads = {
    {{"resnet50_f32", "resnet50", "momentum", "f32", 128, 1},
     {"resnet50_f16", "resnet50", "momentum", "f16", 256, 1},
     {"bert_f32", "bert-base", "adamw clip=1", "f32", 32, 128},
     {"bert_f16", "bert-base", "adamw clip=1", "f16", 64, 128},
     {"bert_f32_unclipped", "bert-base", "adamw", "f32", 32, 128},
     {"bert_f16_unclipped", "bert-base", "adamw", "f16", 64, 128}}};
const RowQuantity kRate = {"samples_per_s", "samples/s"};
constexpr std::array<std::int64_t, 6> kRanks = {1, 2, 4, 8, 16, 32};

struct Published {
  const char* workload;
  std::int64_t ranks;
  double samples_per_s;
};
constexpr std::array<Published, 9> kPublished = {{{"resnet50_f32", 1, 397.6},
                                                  {"resnet50_f32", 32, 12412},
                                                  {"resnet50_f16", 1, 1472.7},
                                                  {"resnet50_f16", 8, 10629},
                                                  {"resnet50_f16", 32, 33141},
                                                  {"bert_f32", 1, 152.9},
                                                  {"bert_f32", 32, 3689.8},
                                                  {"bert_f16", 1, 534.7},
                                                  {"bert_f16", 32, 9911.8}}};

std::string name_of(const std::string& workload, std::int64_t ranks) {
  return fmt::format("{}_{}", workload, ranks);
}

SweepPoint point_of(const Workload& workload, std::int64_t ranks) {
  const PlannedStep step = {.plan_or_model = workload.model,
                            .cluster = "dgx1-v100:nodes=4",
                            .strategy = fmt::format("dp={} micro_batch={}", ranks, workload.batch),
                            .optimizer = workload.optimizer,
                            .global_batch = ranks * workload.batch,
                            .sequence = workload.sequence,
                            .dtype = workload.dtype};
  SweepPoint point = {.name = name_of(workload.name, ranks), .parameters = to_fields(step)};
  point.parameters.emplace_back("ranks", static_cast<double>(ranks));
  for (const Published& published : kPublished)
    if (published.workload == std::string(workload.name) && published.ranks == ranks)
      point.reference = {{"samples_per_s", published.samples_per_s}};
  return point;
}

constexpr std::array<std::int64_t, 3> kRanksHere = {1, 2, 4};

struct WorkloadHere {
  const char* name;
  const char* model;
  const char* optimizer;
  std::int64_t sequence;
};
constexpr std::array<WorkloadHere, 2> kWorkloadsHere = {
    {{"conv", "conv:blocks=1x1,channels=8x16,height=16,width=16,classes=10", "momentum", 1},
     {"encoder", "bert:layers=2,hidden=64,heads=4,vocab=512,seq=32", "adamw clip=1", 32}}};

// On CPU ranks, which share the cores of this machine: the work grows with them.
SweepPoint measured_point(const WorkloadHere& workload, std::int64_t ranks) {
  SweepPoint point = {
      .name = fmt::format("{}_{}_cpu", workload.name, ranks),
      .way = ResultWay::kMeasured,
      .parameters = to_fields({.plan_or_model = workload.model,
                               .cluster = fmt::format("cpu:ranks={},memory=2GiB", ranks),
                               .strategy = fmt::format("dp={} micro_batch=4", ranks),
                               .optimizer = workload.optimizer,
                               .global_batch = 4 * ranks,
                               .sequence = workload.sequence,
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
  for (const WorkloadHere& workload : kWorkloadsHere)
    for (const std::int64_t ranks : kRanksHere) points.push_back(measured_point(workload, ranks));
  return points;
}

// How many times the rate of one device 32 have.
std::optional<double> scaling(const ResultRows& rows, const std::string& workload) {
  const auto all = rows.value(name_of(workload, 32), kRate.key);
  const auto one = rows.value(name_of(workload, 1), kRate.key);
  return all && one ? std::optional(*all / *one) : std::nullopt;
}

ShapeClaim narrower(const ResultRows& rows, const std::string& model, const char* published) {
  ShapeClaim claim;
  claim.statement = fmt::format("f16 scales less than f32 for {}", model);
  const auto f32 = scaling(rows, model + "_f32"), f16 = scaling(rows, model + "_f16");
  if (f32 && f16) {
    claim.holds = *f16 < *f32;
    claim.detail =
        fmt::format("{:.1f} and {:.1f} times one device, published {}", *f16, *f32, published);
  } else {
    claim.detail = "a row on 1 or 32 devices is missing";
  }
  return claim;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  return {ratio_shape(rows, "32 devices have more than 28 times the rate of one in f32", kRate,
                      "resnet50_f32_32", "resnet50_f32_1", {.least = 28, .most = 32.01}),
          ratio_shape(rows, "and more than 20 times in f16", kRate, "resnet50_f16_32",
                      "resnet50_f16_1", {.least = 20, .most = 32.01}),
          ratio_shape(rows, "32 devices have more than 20 times the rate of one for BERT-base",
                      kRate, "bert_f32_32", "bert_f32_1", {.least = 20, .most = 32.01}),
          ratio_shape(rows, "clipping costs BERT-base less than 5 % on 32 devices", kRate,
                      "bert_f16_32", "bert_f16_unclipped_32", {.least = 0.95, .most = 1.001}),
          ring_shape(rows),
          narrower(rows, "resnet50", "22.5 and 31.2"),
          narrower(rows, "bert", "18.5 and 24.1")};
}

Figure throughput(const ResultRows& rows, const std::string& model, const char* title,
                  const char* unit) {
  Chart chart = {.title = fmt::format("{} under data parallelism on V100", title),
                 .x = {.title = "devices", .logarithmic = true},
                 .y = {.title = unit, .logarithmic = true}};
  for (const Workload& workload : kWorkloads) {
    if (!std::string_view(workload.name).starts_with(model)) continue;
    ChartSeries own = {.name = workload.name, .mark = ChartMark::kLineAndPoints};
    ChartSeries there = {.name = fmt::format("{}, published", workload.name)};
    for (const std::int64_t ranks : kRanks) {
      const std::string point = name_of(workload.name, ranks);
      const auto x = static_cast<double>(ranks);
      if (const auto value = rows.value(point, kRate.key)) own.points.push_back({x, *value});
      if (const auto value = rows.reference(point, kRate.key)) there.points.push_back({x, *value});
    }
    chart.series.push_back(std::move(own));
    if (!there.points.empty()) chart.series.push_back(std::move(there));
  }
  return {fmt::format("throughput_{}.svg", model), to_svg(chart)};
}

std::vector<Figure> figures(const ResultRows& rows) {
  return {throughput(rows, "resnet50", "ResNet-50", "images/s"),
          throughput(rows, "bert", "BERT-base", "sequences/s")};
}

}  // namespace

Experiment experiment() {
  return {.name = "data-parallel",
          .question =
              "What do 1 to 32 V100 give under data parallelism alone (arXiv 2110.15032, "
              "figure 10)?",
          .expectation = "nearly linear in f32, less so in f16, where compute is shorter",
          .baseline = "one device, times their number",
          .columns = {{"samples_per_s", "samples", "1/s", "samples_per_s"},
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
