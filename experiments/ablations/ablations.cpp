// One point per job and option.
#include "experiments/ablations/ablations.h"

#include "compiler/expand/expand.h"
#include "core/base/nearest.h"
#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/shapes.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant::ablations {

namespace {

struct Workload {
  const char* name;
  PlannedStep step;
};

std::array<Workload, 4> workloads() {
  const char* node = "dgx1-v100:nodes=1";
  return {{{"gpt",
            {.plan_or_model = "gpt2-medium",
             .cluster = node,
             .strategy = "dp=2 tp=2 pp=2 micro_batch=2",
             .global_batch = 32,
             .dtype = "f16"}},
           {"bert",
            {.plan_or_model = "bert-base",
             .cluster = node,
             .strategy = "dp=8 micro_batch=32 zero=1",
             .global_batch = 256,
             .sequence = 128,
             .dtype = "f16"}},
           {"resnet50",
            {.plan_or_model = "resnet50",
             .cluster = node,
             .strategy = "dp=8 micro_batch=64",
             .optimizer = "momentum",
             .global_batch = 512,
             .dtype = "f16"}},
           {"class-head",
            {.plan_or_model = "class-head-1m",
             .cluster = node,
             .strategy = "dp=8 micro_batch=64 pin=head.weight:(S(1),B)",
             .global_batch = 512,
             .dtype = "f16"}}}};
}

struct Switch {
  const char* name;
  void (*set)(ExpandOptions& options);
};

constexpr std::array<Switch, 9> kSwitches = {{
    {"base", [](ExpandOptions&) {}},
    {"no_fusion", [](ExpandOptions& options) { options.fusion = false; }},
    {"no_buckets",
     [](ExpandOptions& options) {
       options.buckets = {Bytes(0), 0};
     }},
    {"no_joined_runs", [](ExpandOptions& options) { options.join_runs = false; }},
    {"no_reuse_in_place", [](ExpandOptions& options) { options.in_place = false; }},
    {"lives_by_issue_order",
     [](ExpandOptions& options) { options.slot_lifetime = SlotLifetime::kIssueOrder; }},
    {"late_transfers",
     [](ExpandOptions& options) { options.transfer_order = TransferOrder::kLate; }},
    {"transfers_in_groups", [](ExpandOptions& options) { options.launch_groups = true; }},
    {"no_memory_plan", [](ExpandOptions& options) { options.plan_memory = false; }},
}};

std::string name_of(const std::string& workload, const std::string& option) {
  return fmt::format("{}_{}", workload, option);
}

std::vector<SweepPoint> points(bool quick) {
  std::vector<SweepPoint> points;
  for (const Workload& workload : workloads()) {
    const std::string name = workload.name;
    if (quick && (name == "gpt" || name == "bert")) continue;
    for (const Switch& option : kSwitches) {
      SweepPoint point = {.name = name_of(workload.name, option.name),
                          .parameters = to_fields(workload.step)};
      point.parameters.emplace_back("option", option.name);
      points.push_back(std::move(point));
    }
  }
  return points;
}

PointResult evaluate(const SweepPoint& point) {
  ExpandOptions options;
  for (const Switch& option : kSwitches)
    if (word_of(point.parameters, "option") == option.name) option.set(options);
  return simulate_step(planned_step_from(point.parameters), options);
}

// "no_fusion +7.7 %"; nothing where the row is missing.
std::optional<std::string> difference(const ResultRows& rows, const std::string& workload,
                                      const Switch& option, double base) {
  const std::string name = name_of(workload, option.name);
  if (rows.is_feasible(name) == false) return fmt::format("{} does not fit", option.name);
  const auto without = rows.value(name, "step_s");
  if (!without) return std::nullopt;
  return fmt::format("{} {:+.1f} %", option.name, 100 * (*without / base - 1));
}

// That no option that is on makes a job slower: within a thousandth, which order alone can cost.
ShapeClaim nothing_slows(const ResultRows& rows, const std::string& workload) {
  ShapeClaim shape = {fmt::format("nothing that is on makes {} slower than without it", workload),
                      std::nullopt, "a row is missing"};
  const auto base = rows.value(name_of(workload, kSwitches.front().name), "step_s");
  if (!base) return shape;
  std::vector<std::string> details;
  bool is_slowed = false;
  for (std::size_t index = 1; index < kSwitches.size(); ++index) {
    const auto detail = difference(rows, workload, kSwitches[index], *base);
    if (!detail) return shape;
    details.push_back(*detail);
    const auto without = rows.value(name_of(workload, kSwitches[index].name), "step_s");
    is_slowed = is_slowed || (without && *without < *base * 0.999);
  }
  shape.holds = !is_slowed;
  shape.detail = comma_list(details);
  return shape;
}

std::vector<ShapeClaim> shapes(const ResultRows& rows) {
  const RowQuantity memory = {"arena_bytes", "arena"};
  std::vector<ShapeClaim> shapes;
  for (const Workload& workload : workloads()) shapes.push_back(nothing_slows(rows, workload.name));
  shapes.push_back(ratio_shape(rows,
                               "without the memory plan a step of ResNet-50 needs twice as much",
                               memory, "resnet50_no_memory_plan", "resnet50_base", {.least = 2}));
  shapes.push_back(ratio_shape(rows, "without fusion ResNet-50 is slower", {"step_s", "step"},
                               "resnet50_no_fusion", "resnet50_base", {.least = 1.02}));
  return shapes;
}

}  // namespace

Experiment experiment() {
  return {.name = "ablations",
          .question = "What does each part of the compiler give, in time and memory?",
          .expectation = "nothing that is on makes a step slower than without it",
          .baseline = "the part left out",
          .columns = {{"step_s", "step", "s"},
                      {"exposed_communication_s", "exposed communication", "s"},
                      {"arena_bytes", "arena", "B"}},
          .points = points,
          .evaluate = evaluate,
          .shapes = shapes};
}

}  // namespace sextant::ablations
