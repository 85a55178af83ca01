// Model -> training graph -> plan -> simulated step, by the pieces that a search uses for a leaf.
#include "experiments/planned/planned_step.h"

#include "compiler/expand/expand.h"
#include "compiler/expand/plan.h"
#include "compiler/strategy/strategy.h"
#include "core/base/check.h"
#include "core/base/units.h"
#include "models/any_model.h"
#include "search/problem/candidate.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <cmath>
#include <string_view>
#include <utility>

namespace sextant {

namespace {

void require_room(const Candidate& candidate) {
  require(candidate.needed_memory <= candidate.capacity, ErrorCode::kInfeasible,
          "needs {} of the {} that a device has", to_text(candidate.needed_memory),
          to_text(candidate.capacity));
}

}  // namespace

Fields to_fields(const PlannedStep& step) {
  Fields fields = {{"model", step.plan_or_model},
                   {"cluster", step.cluster},
                   {"strategy", step.strategy},
                   {"global_batch", static_cast<double>(step.global_batch)}};
  if (step.sequence) fields.emplace_back("sequence", static_cast<double>(*step.sequence));
  if (!step.dtype.empty()) fields.emplace_back("dtype", step.dtype);
  if (!step.optimizer.empty()) fields.emplace_back("optimizer", step.optimizer);
  fields.emplace_back("identity", text_hash(to_json_text(load_any_model(step.plan_or_model)) +
                                            to_json_text(load_cluster(step.cluster))));
  return fields;
}

PlannedStep planned_step_from(const Fields& parameters) {
  PlannedStep step = {.plan_or_model = word_of(parameters, "model"),
                      .cluster = word_of(parameters, "cluster"),
                      .strategy = word_of(parameters, "strategy"),
                      .optimizer = word_of(parameters, "optimizer"),
                      .dtype = word_of(parameters, "dtype")};
  const auto batch = number_of(parameters, "global_batch");
  require(batch.has_value(), ErrorCode::kUsage, "a planned step needs a global_batch");
  step.global_batch = std::llround(*batch);
  if (const auto sequence = number_of(parameters, "sequence"))
    step.sequence = std::llround(*sequence);
  return step;
}

PointResult simulate_step(const PlannedStep& step) { return simulate_step(step, ExpandOptions()); }

PointResult simulate_step(const PlannedStep& step, const ExpandOptions& options) {
  const Job job = make_job(step);
  return simulate_step(job, with_words_of(job.model, parse_strategy(step.strategy)), options);
}

PointResult simulate_step(const Job& job, const Strategy& strategy) {
  return simulate_step(job, strategy, ExpandOptions());
}

PointResult simulate_step(const Job& job, const Strategy& strategy, const ExpandOptions& options) {
  require(strategy.ranks() <= job.cluster.num_devices(), ErrorCode::kInfeasible,
          "the strategy uses {} ranks, the cluster has {} devices", strategy.ranks(),
          job.cluster.num_devices());
  num_micro_batches(strategy, job.global_batch);  // refuses before anything is built
  TimingModels timing = make_timing_models(job.cluster, job.dtype);
  const SearchModels models = {std::move(timing.cost), std::move(timing.network), &job.cluster, {}};
  const LogicalGraph training = training_graph(job, strategy);
  const Candidate candidate =
      evaluate_strategy(training, strategy, job.global_batch, models, options);
  require_room(candidate);
  const double seconds = to_seconds(candidate.step_time);
  const StepParts& parts = candidate.parts;
  return {.values = {{"step_s", seconds},
                     {"samples_per_s", static_cast<double>(job.global_batch) / seconds},
                     {"memory_bytes", static_cast<double>(candidate.most_needed.value)},
                     {"arena_bytes", static_cast<double>(candidate.peak_memory.value)},
                     {"compute_s", parts.compute.mean_s},
                     {"exposed_communication_s", parts.exposed_communication.mean_s},
                     {"bubble_s", parts.bubble.mean_s},
                     {"optimizer_s", parts.optimizer.mean_s},
                     {"host_s", parts.host.mean_s}}};
}

}  // namespace sextant
