// Sentences and one table of settings; the picture of stages and nodes is in mesh_part.cpp.
#include "cli/pages/plan_part.h"

#include "cli/sections/plan_notes.h"
#include "cli/throughput.h"
#include "cli/verbs.h"
#include "compiler/strategy/strategy_settings.h"
#include "core/text/counted_text.h"
#include "core/text/part_text.h"
#include "io/pages/html_table.h"

#include <fmt/core.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace sextant {
namespace {

std::string page_batch_text(const Job& job) {
  const SampleUnit unit = unit_of(job.model);
  if (unit != SampleUnit::kTokens) return fmt::format("{} {}", job.global_batch, to_string(unit));
  return fmt::format("{} x {} tokens", job.global_batch, job.sequence);
}

// "929,095", "7.9"
std::string rate_of(const Throughput& rate) {
  constexpr double kWhole = 100;
  return rate.units_per_s < kWhole ? rate_text(rate.units_per_s)
                                   : grouped(std::llround(rate.units_per_s));
}

Markup facts_table(const PlanView& plan) {
  const Job& job = plan.planned.job;
  const Cluster& cluster = job.cluster;
  HtmlTable table({{"", false}, {"", false}});
  const auto add = [&](const char* name, const Markup& value) { table.add({Markup(name), value}); };
  add("model", Markup(fmt::format("{}: {} parameters", name_of(job.model),
                                  grouped(count_parameters(job.model)))));
  add("cluster",
      Markup(fmt::format("{}: {} of {} x {}", cluster.name, counted(cluster.nodes, "node"),
                         cluster.devices_per_node, cluster.device.name)));
  add("strategy", code_of(to_string(plan.strategy())));
  add("global batch", Markup(page_batch_text(job)));
  add("computes in", Markup(to_string(job.dtype)));
  add("optimizer", code_of(to_string(job.optimizer)));
  return table.markup();
}

Markup settings_table(const PlanView& plan) {
  HtmlTable table({{"setting", false}, {"value", false}, {"meaning", false}});
  for (const StrategySetting& setting : strategy_settings())
    if (setting.write != nullptr)
      table.add({code_of(std::string(setting.key)), code_of(setting.write(plan.strategy())),
                 Markup(setting.meaning)});
  return table.markup();
}

}  // namespace

Markup plan_head(const PlanView& plan) {
  const Job& job = plan.planned.job;
  const auto share = mfu(job, plan.step_s(), plan.strategy().ranks());
  const Throughput rate = throughput(job, plan.step_s());
  const DeviceMemory& worst = plan.tightest;
  Markup head =
      figure_of(tiles_of({{to_text(plan.simulation.step_time), "a step"},
                          {rate_of(rate), fmt::format("{} per second", to_string(rate.unit))},
                          {share ? percent(*share) : "n/a", "MFU of " + job.cluster.device.name},
                          {to_text(worst.needed()),
                           fmt::format("of {} on the fullest device", to_text(worst.capacity))},
                          {grouped(plan.strategy().ranks()), "ranks"}}),
                {plan.simulated()});
  if (!worst.fits())
    head += warning_of(
        fmt::format("This plan does not fit: {}.", part_text(worst.needed(), worst.capacity)));
  const double said = plan.planned.plan.predicted_step_time_s;
  if (said > 0 && std::abs(said / plan.step_s() - 1) > 1e-3)
    head +=
        note_of(fmt::format("The plan file says {}: what its search predicted.", time_text(said)));
  return head;
}

PagePart plan_part(const PlanView& plan) {
  Markup body = figure_of(facts_table(plan), {plan.counted()});
  for (const std::string& note : check_notes(plan.planned, plan.use)) body += note_of(note);
  body +=
      foldable("All settings of the strategy", figure_of(settings_table(plan), {plan.counted()}));
  return {"Model and plan", body};
}

}  // namespace sextant
