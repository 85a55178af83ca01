// One search per model and cluster.
#include "experiments/todays_models/todays_models.h"

#include "core/base/check.h"
#include "experiments/jobs/job.h"
#include "experiments/planned/best_plan.h"
#include "experiments/planned/planned_step.h"
#include "experiments/planned/rule_plan.h"
#include "experiments/sweeps/shapes.h"
#include "search/search/search.h"

#include <fmt/core.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

namespace sextant::todays_models {

namespace {

constexpr std::int64_t kPatience = 6;  // plans in a row that are no better

struct Case {
  const char* model;
  std::int64_t devices, batch;
  std::optional<std::int64_t> sequence = {};
  std::optional<double> published_mfu = {};
  bool is_quick = false;

  std::string name() const { return fmt::format("{}_{}", model, devices); }
};

std::array<Case, 8> cases() {
  return {{{.model = "llama3-8b", .devices = 8, .batch = 128, .is_quick = true},
           {.model = "llama3-8b", .devices = 64, .batch = 512, .is_quick = true},
           {.model = "llama3-70b", .devices = 64, .batch = 256},
           {.model = "llama3-70b", .devices = 1024, .batch = 2048},
           {.model = "llama3-405b", .devices = 8192, .batch = 2048, .published_mfu = 0.43},
           {.model = "llama3-405b", .devices = 16384, .batch = 2048, .published_mfu = 0.41},
           {.model = "mixtral-8x7b", .devices = 64, .batch = 256, .sequence = 4096},
           {.model = "mixtral-8x7b", .devices = 512, .batch = 512, .sequence = 4096}}};
}

SweepPoint point_of(const Case& item) {
  const PlannedStep step = {.plan_or_model = item.model,
                            .cluster = fmt::format("dgx-h100:nodes={}", item.devices / 8),
                            .global_batch = item.batch,
                            .sequence = item.sequence,
                            .dtype = "bf16"};
  SweepPoint point = {.name = item.name(), .parameters = to_fields(step)};
  point.parameters.emplace_back("patience", static_cast<double>(kPatience));
  if (item.published_mfu) point.reference = {{"mfu", *item.published_mfu}};
  return point;
}

constexpr const char* kRule = "tp=8, the pipeline as deep as memory asks";

std::string rule_name(const Case& item) { return item.name() + "_rule"; }

SweepPoint rule_point(const Case& item) {
  SweepPoint point = point_of(item);
  point.name = rule_name(item);
  point.parameters.pop_back();  // nothing is searched
  point.parameters.emplace_back("rule", kRule);
  point.reference = {};
  return point;
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Case& item : cases())
    if (!quick || item.is_quick) {
      points.push_back(point_of(item));
      points.push_back(rule_point(item));
    }
  return points;
}

// The step of that plan where links between nodes are `factor` times as fast.
double step_with_links(const Job& job, const Strategy& strategy, double factor) {
  Job other = job;
  other.cluster.inter_node.bandwidth.value *= factor;
  return *number_of(simulate_step(other, strategy).values, "step_s");
}

PointResult evaluate(const SweepPoint& point) {
  if (!word_of(point.parameters, "rule").empty())
    return rule_plan(make_job(planned_step_from(point.parameters)), RuleDepth::kAsMemoryAsks);
  const Job job = make_job(planned_step_from(point.parameters));
  SearchLimits limits;
  limits.patience = std::llround(number_of(point.parameters, "patience").value_or(kPatience));
  PointResult result = best_plan(job, limits);
  const Strategy best = parse_strategy(to_text(result.values.front().second));
  result.values.emplace_back("step_half_links_s", step_with_links(job, best, 0.5));
  result.values.emplace_back("step_double_links_s", step_with_links(job, best, 2));
  return result;
}

ShapeClaim link_shape(const ResultRows& rows, const Case& item) {
  ShapeClaim shape = {
      fmt::format("{}: links between nodes of half the speed cost less than 10 %", item.name()),
      std::nullopt, "its row is missing"};
  const auto step = rows.value(item.name(), "step_s");
  const auto half = rows.value(item.name(), "step_half_links_s");
  const auto twice = rows.value(item.name(), "step_double_links_s");
  if (!step || !half || !twice) return shape;
  shape.holds = *half < *step * 1.1;
  shape.detail = fmt::format("half {:+.1f} %, double {:+.1f} %", 100 * (*half / *step - 1),
                             100 * (*twice / *step - 1));
  return shape;
}

ShapeClaim mfu_shape(const ResultRows& rows, const Case& item) {
  ShapeClaim shape = {fmt::format("{}: MFU within 15 % of what was published", item.name()),
                      std::nullopt, "its row is missing"};
  const auto own = rows.value(item.name(), "mfu");
  if (!own) return shape;
  shape.holds = std::abs(*own / *item.published_mfu - 1) < 0.15;
  shape.detail = fmt::format("{:.3f}, published {:.2f}", *own, *item.published_mfu);
  return shape;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  std::vector<ShapeClaim> shapes;
  for (const Case& item : cases()) {
    shapes.push_back(
        ratio_shape(rows, fmt::format("{}: the plan found is no slower than the rule", item.name()),
                    {"step_s", "step"}, item.name(), rule_name(item), {.most = 1}));
    shapes.push_back(link_shape(rows, item));
    if (item.published_mfu) shapes.push_back(mfu_shape(rows, item));
  }
  return shapes;
}

}  // namespace

Experiment experiment() {
  return {.name = "models",
          .question = "What are the best plans of Llama 3 and Mixtral on 8 to 16,384 H100?",
          .expectation =
              "data parallelism while the model fits, then tensor parallelism inside the "
              "node, then a pipeline over nodes",
          .baseline = "tp=8, as deep a pipeline as memory asks, data parallelism for the rest",
          .columns = {{"step_s", "step", "s"},
                      {"mfu", "MFU", "", "mfu"},
                      {"gap", "gap", ""},
                      {"memory_bytes", "memory", "B"},
                      {"step_half_links_s", "at half the links", "s"},
                      {"strategy", "plan", ""}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes};
}

}  // namespace sextant::todays_models
