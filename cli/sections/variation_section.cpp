// Quantiles as tables and JSON.
#include "cli/sections/variation_section.h"

#include "cli/verbs.h"
#include "core/base/quantile.h"
#include "core/text/counted_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kDay = 86400;
// As many days as are simulated in a moment.
constexpr std::int64_t kMostDays = 1000, kFewestDays = 20;
constexpr double kCheckpoints = 1e6;

struct NamedQuantile {
  const char* name;
  double q;
};
constexpr NamedQuantile kQuantiles[] = {{"least", 0},  {"p5", 0.05},  {"median", 0.5},
                                        {"p95", 0.95}, {"p99", 0.99}, {"most", 1}};

}  // namespace

StepSamples step_samples(const Simulation& simulation) {
  StepSamples samples;
  for (std::size_t i = kWarmUpSteps; i < simulation.step_times.size(); ++i)
    samples.step_s.push_back(to_seconds(simulation.step_times[i]));
  std::sort(samples.step_s.begin(), samples.step_s.end());
  const double sum = std::accumulate(samples.step_s.begin(), samples.step_s.end(), 0.0);
  samples.mean_s = samples.step_s.empty() ? 0 : sum / static_cast<double>(samples.step_s.size());
  return samples;
}

void say(const StepSamples& samples, const Console& console) {
  TextTable table({counted(samples.step_s.size(), "step"), "time", "of the mean"});
  table.add({"mean", time_text(samples.mean_s), ""});
  for (const auto& [name, q] : kQuantiles)
    table.add({name, time_text(quantile(samples.step_s, q)),
               percent(quantile(samples.step_s, q) / samples.mean_s)});
  console.say(table.text());
}

Json samples_json(const StepSamples& samples) {
  Json quantiles;
  for (const auto& [name, q] : kQuantiles) quantiles[name] = quantile(samples.step_s, q);
  return {{"steps", samples.step_s.size()}, {"mean_s", samples.mean_s}, {"quantiles_s", quantiles}};
}

LongRun long_run(const Reliability& reliability, std::uint64_t seed) {
  const Goodput expected = expected_goodput(reliability);
  const double affordable = kCheckpoints * expected.interval_s / kDay;
  const auto days = static_cast<std::int64_t>(
      std::clamp(affordable, static_cast<double>(kFewestDays), static_cast<double>(kMostDays)));
  return {reliability, expected, simulate_failures(reliability, kDay, days, seed)};
}

void say(const LongRun& run, const Throughput& of_step, const Console& console) {
  const Goodput& goodput = run.expected;
  const std::string rate = rate_text(of_step.units_per_s * goodput.useful);
  TextTable table({"long run: share of the wall time", "expected"});
  table.add({"work that stays done (goodput)", percent(goodput.useful)});
  table.add({"checkpoints", percent(goodput.checkpoints)});
  table.add({"work lost to failures", percent(goodput.lost)});
  table.add({"restarts", percent(goodput.restarts)});
  console.say(table.text());
  console.say(fmt::format(
      "{:.2f} failures per day on {}, a checkpoint every {}{}; {} {}/s in the long "
      "run; a day of work takes {:.2f} days (median), {:.2f} (p95)",
      goodput.failures_per_day, counted(run.reliability.devices, "device"),
      time_text(std::min(goodput.interval_s, 1e6)),
      run.reliability.interval_s > 0 ? "" : " (the best)", rate, to_string(of_step.unit),
      quantile(run.day_s, 0.5) / kDay, quantile(run.day_s, 0.95) / kDay));
}

Json long_run_json(const LongRun& run) {
  const Goodput& goodput = run.expected;
  return {{"devices", run.reliability.devices},
          {"failures_per_day", goodput.failures_per_day},
          {"checkpoint_interval_s", goodput.interval_s},
          {"goodput", goodput.useful},
          {"checkpoints", goodput.checkpoints},
          {"lost", goodput.lost},
          {"restarts", goodput.restarts},
          {"day_of_work_s",
           {{"median", quantile(run.day_s, 0.5)}, {"p95", quantile(run.day_s, 0.95)}}}};
}

}  // namespace sextant
