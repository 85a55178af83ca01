// Tables and sentences about a run that is over.
#include "cli/training/run_report.h"

#include "cli/throughput.h"
#include "cli/verbs.h"
#include "core/text/counted_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

std::string dropped_text(std::int64_t dropped, std::int64_t choices) {
  return fmt::format("{} ({})", dropped,
                     percent(static_cast<double>(dropped) / static_cast<double>(choices)));
}

void say_losses(const RunRecorder::Steps& steps, std::int64_t first_step, const Console& console) {
  const bool has_skipped = steps.num_skipped() > 0;
  const bool may_drop = !steps.dropped.empty();
  std::vector<std::string> header = {"step", "loss"};
  if (may_drop) header.emplace_back("dropped choices");
  if (has_skipped) header.emplace_back("");
  TextTable table(header);
  const std::size_t num_steps = steps.losses.size();
  const std::size_t every = std::max<std::size_t>(1, num_steps / 10);
  for (std::size_t i = 0; i < num_steps; ++i) {
    if (i % every != 0 && i + 1 != num_steps) continue;
    std::vector<std::string> row = {fmt::format("{}", first_step + static_cast<std::int64_t>(i)),
                                    loss_text(steps.losses[i])};
    if (may_drop) row.push_back(dropped_text(steps.dropped[i], steps.choices_per_step));
    if (has_skipped) row.emplace_back(steps.skipped[i] ? "skipped" : "");
    table.add(std::move(row));
  }
  console.say(table.text());
}

void say_step_time(const RunRecord& record, const PlannedJob& planned, std::size_t num_times,
                   const Console& console) {
  const auto utilisation = record.is_planned_device
                               ? mfu(planned.job, record.step_time_s, planned.plan.strategy.ranks())
                               : std::nullopt;
  const std::string rate =
      utilisation ? fmt::format(", MFU {:.1f} % of {}", 100 * *utilisation, record.planned_device)
      : record.is_planned_device
          ? std::string()
          : fmt::format(", of {}, not {}", record.devices, record.planned_device);
  console.say(fmt::format(
      "step {} (median of {} after {} warm-up steps; quartiles {} and {}), {}{}",
      to_text(duration_from_seconds(record.step_time_s)), num_times, record.warm_up_steps,
      to_text(duration_from_seconds(record.step_time_quartiles_s[0])),
      to_text(duration_from_seconds(record.step_time_quartiles_s[1])),
      to_text(throughput(planned.job, record.step_time_s)), rate));
}

}  // namespace

void say_result(const RunRecord& record, const PlannedJob& planned, const RunRecorder::Steps& steps,
                const Console& console) {
  if (steps.num_steps() > 0) say_losses(steps, record.first_step, console);
  if (!steps.times_s.empty()) say_step_time(record, planned, steps.times_s.size(), console);
  if (record.end != RunEnd::kComplete)
    console.say(fmt::format("{} after {} of {}", to_string(record.end), record.steps,
                            counted(record.asked_steps, "step")));
  if (record.skipped_steps > 0)
    console.say(
        fmt::format("skipped {} of {} (gradients not finite, or no tokens): no weight changed",
                    record.skipped_steps, counted(record.steps, "step")));
  if (record.choices > 0)
    console.say(fmt::format(
        "experts dropped {} of {} choices, for which they had no place; more room: capacity_factor",
        dropped_text(record.dropped_choices, record.choices), record.choices));
}

void say_profile(const RunRecord& record, const Console& console) {
  const auto& times = record.kind_time_s.empty() ? record.operator_time_s : record.kind_time_s;
  if (times.empty()) return;
  std::vector<std::pair<double, std::string>> rows;
  double sum = 0;
  for (const auto& [name, seconds] : times) {
    rows.emplace_back(seconds, name);
    sum += seconds;
  }
  std::sort(rows.rbegin(), rows.rend());
  TextTable table({"profiled", "per step", "share"});
  const auto add = [&](const std::string& name, double seconds) {
    table.add({name, to_text(duration_from_seconds(seconds)), percent(seconds / sum)});
  };
  for (std::size_t i = 0; i < std::min<std::size_t>(rows.size(), 25); ++i)
    add(rows[i].second, rows[i].first);
  add("sum", sum);
  console.say(table.text());
}

}  // namespace sextant
