// One line of metrics.jsonl per step.
#include "cli/training/run_recorder.h"

#include "cli/console.h"
#include "cli/throughput.h"
#include "compiler/training/dropped_choices.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sextant {
namespace {

// The forward graph of a micro-batch says how many choices its dispatches make.
std::int64_t choices_per_step(const PlannedJob& planned) {
  const Strategy& strategy = planned.plan.strategy;
  const LogicalGraph forward = build_graph(planned.job.model, strategy.dp * strategy.micro_batch,
                                           planned.job.sequence, planned.job.dtype);
  return droppable_choices(forward) * num_micro_batches(strategy, planned.plan.global_batch);
}

}  // namespace

// The norm is the only metric that tells: it is infinite where an element is not finite, and only
// where there is one does a step look at its gradients before it uses them.
bool is_skipped(const StepMetrics& metrics) {
  if (metrics.values.at("token_count") <= 0) return true;
  const auto norm = metrics.values.find("grad_norm");
  return norm != metrics.values.end() && !std::isfinite(norm->second);
}

std::string loss_text(double loss) {
  return std::isnan(loss) ? "nan" : fmt::format("{:.4f}", loss);
}

std::int64_t RunRecorder::Steps::num_skipped() const {
  return std::count(skipped.begin(), skipped.end(), true);
}

std::int64_t RunRecorder::Steps::num_dropped() const {
  return std::accumulate(dropped.begin(), dropped.end(), std::int64_t{0});
}

RunRecorder::RunRecorder(const PlannedJob& planned, Bytes peak_memory, std::int64_t warm_up_steps,
                         bool is_planned_device)
    : planned_(planned),
      peak_memory_(peak_memory),
      warm_up_steps_(warm_up_steps),
      is_planned_device_(is_planned_device),
      last_s_(wall_seconds()) {
  steps_.choices_per_step = choices_per_step(planned);
}

void RunRecorder::add(const StepMetrics& metrics) {
  using Json = nlohmann::ordered_json;
  const std::lock_guard lock(mutex_);
  const double now = wall_seconds();
  const double step_s = now - last_s_;
  last_s_ = now;
  if (metrics.step >= warm_up_steps_) steps_.times_s.push_back(step_s);
  steps_.losses.push_back(metrics.loss());
  steps_.skipped.push_back(is_skipped(metrics));
  const auto dropped = metrics.values.find(kDroppedChoices);
  if (dropped != metrics.values.end()) steps_.dropped.push_back(std::llround(dropped->second));
  const Throughput rate = throughput(planned_.job, step_s);
  const auto value =
      is_planned_device_ ? mfu(planned_.job, step_s, planned_.plan.strategy.ranks()) : std::nullopt;
  Json line = {{"step", metrics.step}, {"loss", metrics.loss()}, {"step_time_s", step_s}};
  add_to(line, rate);
  line["mfu"] = value ? Json(*value) : Json(nullptr);
  line["peak_memory_bytes"] = peak_memory_.value;
  line["skipped"] = is_skipped(metrics);
  for (const char* name : {"grad_norm", "loss_scale"})
    if (const auto found = metrics.values.find(name); found != metrics.values.end())
      line[name] = found->second;
  if (dropped != metrics.values.end()) {
    line[kDroppedChoices] = steps_.dropped.back();
    line["choices"] = steps_.choices_per_step;
  }
  steps_.lines += line.dump() + "\n";
  last_line_ = fmt::format("step {}: loss {}{}, {}", metrics.step, loss_text(metrics.loss()),
                           is_skipped(metrics) ? ", skipped" : "", to_text(rate));
}

RunRecorder::Steps RunRecorder::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

std::int64_t RunRecorder::num_steps() const {
  const std::lock_guard lock(mutex_);
  return steps_.num_steps();
}

std::string RunRecorder::last_line() const {
  const std::lock_guard lock(mutex_);
  return last_line_;
}

}  // namespace sextant
