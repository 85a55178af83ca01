// What may happen to a plan: it is refused by name before it runs, or it trains as one device does.
#include "tests/conformance/law/law_runner.h"

#include "compiler/words/stage.h"
#include "core/base/check.h"
#include "tests/conformance/law/law_models.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace sextant {
namespace {

using Outcome = LawReport::Outcome;

// The refusals a legal plan with pins may meet, by a part of their text. Anything else is a broken
// law.
struct Refusal {
  std::string_view name, text;
};
constexpr std::array kRefusals = {
    Refusal{"no words fit the pin", "has no words that fit"},
    Refusal{"a source cannot be partial", "partial: a source holds whole values"},
    Refusal{"two reductions at once", "two different reductions"},
    Refusal{"a pin cuts a group of heads", "the parts would cut one of"},
    Refusal{"a pin does not fit a layer it names", "is no word for it"},
    Refusal{"a pin leaves sp nothing to split", "no activation of the model has a sequence"},
    Refusal{"a pin names what a ring rewrites", "attention.core' (cast) has 1 inputs"},
    Refusal{"a pin leaves nothing to cut in pieces", "no product of the model is pending"},
    Refusal{"a pin makes parts that differ", ": pieces want"},
    Refusal{"a pin makes parts smaller than pieces", "; pieces that would do"},
};

LawReport report_of(const LawPlan& plan, const Error& error) {
  for (const Refusal& refusal : kRefusals)
    if (!plan.strategy.pins.empty() &&
        std::string_view(error.what()).find(refusal.text) != std::string_view::npos)
      return {Outcome::kRefused, std::string(refusal.name), 0};
  return {Outcome::kBroken, fmt::format("{}: {}", to_string(error.code()), error.what()), 0};
}

// One device, one micro-batch; where the numbers depend on micro-batches, as many as the plan's.
LawPlan reference_plan(const LawPlan& plan) {
  LawPlan one = plan;
  one.queues = CpuQueueKind::kInline;
  one.kernels = CpuKernels::kReference;
  one.buckets = "default";
  one.options = {};
  one.strategy = {};
  one.strategy.micro_batch = law_model(plan.model).depends_on_micro_batch
                                 ? plan.strategy.dp * plan.strategy.micro_batch
                                 : plan.global_batch;
  return one;
}

// Changes that make a plan simpler, in the order of what they save the reader.
using Simplification = std::function<void(LawPlan&)>;

// Only downwards, so that shrinking ends.
void lower_degree(LawPlan& plan, std::int64_t Strategy::*degree, std::int64_t value) {
  const std::size_t axes = axes_of(plan.strategy).count;
  plan.strategy.*degree = std::min(plan.strategy.*degree, value);
  if (axes_of(plan.strategy).count != axes) plan.strategy.pins.clear();
  if (plan.strategy.tp == 1) plan.strategy.pieces = 1;
}

void fewer_stages(LawPlan& plan) {
  Strategy& strategy = plan.strategy;
  strategy.pp = std::max<std::int64_t>(1, strategy.pp - 1);
  strategy.layers.clear();
  strategy.virtual_stages = 1;
  if (strategy.schedule == Schedule::kInterleaved || strategy.schedule == Schedule::kZeroBubbleV)
    strategy.schedule = Schedule::kOneFOneB;
}

void smaller_model(LawPlan& plan) {
  const LawModel& model = law_model(plan.model);
  const std::string family = model.name.substr(0, model.name.find_first_of("0123456789"));
  for (const LawModel& smaller : law_models())
    if (smaller.name.starts_with(family) && smaller.blocks == model.blocks - 1)
      plan.model = smaller.name;
}

std::vector<Simplification> simplifications() {
  return {
      [](LawPlan& plan) { plan.strategy.pins.clear(); },
      [](LawPlan& plan) {
        if (plan.strategy.pins.size() > 1) plan.strategy.pins.pop_back();
      },
      [](LawPlan& plan) {
        if (plan.strategy.pins.size() > 1) plan.strategy.pins.erase(plan.strategy.pins.begin());
      },
      [](LawPlan& plan) { plan.strategy.pp = 1, fewer_stages(plan); },
      fewer_stages,
      [](LawPlan& plan) { plan.strategy.layers.clear(); },
      [](LawPlan& plan) { plan.strategy.order = kUsualOrder; },
      [](LawPlan& plan) { plan.strategy.schedule = Schedule::kGPipe; },
      [](LawPlan& plan) { lower_degree(plan, &Strategy::cp, 1); },
      [](LawPlan& plan) { lower_degree(plan, &Strategy::ep, 1); },
      [](LawPlan& plan) { lower_degree(plan, &Strategy::tp, 1); },
      [](LawPlan& plan) { lower_degree(plan, &Strategy::tp, 2); },
      [](LawPlan& plan) { lower_degree(plan, &Strategy::dp, 1); },
      [](LawPlan& plan) { lower_degree(plan, &Strategy::dp, 2); },
      [](LawPlan& plan) { plan.strategy.sequence_parallel = false; },
      [](LawPlan& plan) { plan.strategy.pieces = 1; },
      [](LawPlan& plan) { plan.strategy.pieces = std::min<std::int64_t>(2, plan.strategy.pieces); },
      [](LawPlan& plan) { plan.strategy.zero = 0; },
      [](LawPlan& plan) { plan.strategy.zero = std::max(0, plan.strategy.zero - 1); },
      [](LawPlan& plan) { plan.strategy.recompute = {}; },
      [](LawPlan& plan) { plan.strategy.micro_batch = 1; },
      [](LawPlan& plan) { plan.global_batch = plan.strategy.dp * plan.strategy.micro_batch; },
      smaller_model,
      [](LawPlan& plan) { plan.steps = 1; },
      [](LawPlan& plan) { plan.optimizer = law_optimizers().front().name; },
      [](LawPlan& plan) { plan.dtype = DType::kF64; },
      [](LawPlan& plan) { plan.queues = CpuQueueKind::kInline; },
      [](LawPlan& plan) { plan.kernels = CpuKernels::kReference; },
      [](LawPlan& plan) { plan.buckets = "default"; },
      [](LawPlan& plan) { plan.options = {}; },
  };
}

// The code of an error, or nothing where numbers are wrong: shrinking keeps to one kind of failure.
std::string kind_of_failure(const LawReport& report) {
  const bool is_error = std::isalpha(static_cast<unsigned char>(report.reason.front())) != 0;
  return is_error ? report.reason.substr(0, report.reason.find(':')) : "";
}

// A shrunk plan may have become one that the grammar refuses.
bool is_legal(const LawPlan& plan) {
  try {
    parse_strategy(to_string(plan.strategy));
    num_micro_batches(plan.strategy, plan.global_batch);
    place_layers(law_model(plan.model).blocks + 2, plan.strategy);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

TrainingCase training_case(const LawPlan& plan) {
  TrainingCase training;
  training.build = law_model(plan.model).build;
  training.global_batch = plan.global_batch;
  training.dtype = plan.dtype;
  training.steps = plan.steps;
  training.optimizer = parse_optimizer(law_optimizer(plan.optimizer).text);
  return training;
}

CpuOptions cpu_options(const LawPlan& plan) {
  CpuOptions options;
  options.queues = plan.queues;
  options.kernels = plan.kernels;
  options.seed = plan.seed;
  options.max_delay_us = 30;
  options.rendezvous_timeout_ms = 30'000;
  return options;
}

// Of 16 bits, a division by the root of a gradient turns rounding noise into whole steps: such
// optimizers are compared in their losses and gradients (README).
bool is_coarse(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

double law_bound(const LawPlan& plan) {
  // The longest sum: a weight's gradient over 12 samples of 6 places, of 97 classes.
  const double terms = 12.0 * 6.0 * 97.0;
  if (plan.dtype == DType::kF64) return 1e-10;
  if (plan.dtype == DType::kF32) return 1e-5 * std::sqrt(terms);
  // 180 roundings of 2^-9 on the way to a gradient, in two runs, at four deviations (README).
  return 4.0 * std::sqrt(2.0 * 180.0 / 3.0) / 512.0;
}

LawRunner::LawRunner()
    : train_([](const LawPlan& plan, const TrainingCase& training, const PhysicalGraph& graph) {
        return train(training, graph, cpu_options(plan));
      }) {}

const LawRunner::Reference& LawRunner::reference(const LawPlan& plan) {
  const LawPlan one = reference_plan(plan);
  const auto [entry, is_new] = references_.try_emplace(to_line(one));
  if (!is_new) return entry->second;
  const TrainingCase training = training_case(one);
  const PhysicalGraph graph = compile_case(training, to_string(one.strategy));
  TrainingCase first = training;
  first.steps = 1;
  entry->second = {train(first, graph, cpu_options(one)), train(training, graph, cpu_options(one))};
  return entry->second;
}

LawReport LawRunner::run(const LawPlan& plan) {
  std::optional<PhysicalGraph> graph;
  try {
    graph = compile_case(training_case(plan), to_string(plan.strategy), expand_options(plan));
  } catch (const Error& error) {
    return report_of(plan, error);
  }
  try {
    return compare(plan, *graph);
  } catch (const Error& error) {
    return {Outcome::kBroken, fmt::format("{}: {}", to_string(error.code()), error.what()), 0};
  }
}

LawReport LawRunner::compare(const LawPlan& plan, const PhysicalGraph& graph) {
  const Reference& expected = reference(plan);
  TrainingCase training = training_case(plan);
  const TrainingResult last = train_(plan, training, graph);
  training.steps = 1;
  LawPlan calm = plan;
  calm.queues = CpuQueueKind::kInline;
  const TrainingResult first = train_(calm, training, graph);
  // Counts are exact; rounding of other types may send a token to another expert.
  if (plan.dtype == DType::kF64 && last.dropped != expected.last.dropped)
    return {Outcome::kBroken, "other choices of experts are dropped than on one device", 0};
  // Kernels of f32 and narrower types sum in other orders, so that a sign behind a kink may differ
  // in some step: one of 15 runs of conv3 went from 1e-5 to 1e-2 within a step. In f64 nothing may.
  const bool coarse = is_coarse(plan.dtype);
  const bool jumps = plan.dtype != DType::kF64 && law_model(plan.model).has_kinks;
  const bool whole_state = !jumps && (!coarse || law_optimizer(plan.optimizer).is_linear);
  const Distance at_end =
      whole_state ? distance(last, expected.last) : distance_of_losses(last, expected.last);
  const Distance at_first = larger(distance_of_losses(first, expected.first),
                                   coarse && jumps ? Distance()
                                   : coarse        ? distance_of_gradients(first, expected.first)
                                                   : distance_of_state(first, expected.first));
  const double worst = std::max(at_end.error, at_first.error);
  if (worst <= law_bound(plan)) return {Outcome::kHolds, "", worst};
  return {Outcome::kBroken,
          fmt::format("{:.2e} in {} after {} steps, {:.2e} in {} after the first", at_end.error,
                      at_end.where, plan.steps, at_first.error, at_first.where),
          worst};
}

LawPlan LawRunner::shrink(LawPlan plan) {
  const std::string kind = kind_of_failure(run(plan));
  for (bool shrunk = true; shrunk;) {
    shrunk = false;
    for (const Simplification& simplify : simplifications()) {
      LawPlan simpler = plan;
      simplify(simpler);
      if (simpler == plan || !is_legal(simpler)) continue;
      const LawReport report = run(simpler);
      if (report.outcome != Outcome::kBroken || kind_of_failure(report) != kind) continue;
      plan = std::move(simpler);
      shrunk = true;
    }
  }
  return plan;
}

}  // namespace sextant
