// Two pictures by step, one of operators, two tables.
#include "cli/pages/run_part.h"

#include "backends/cpu/machine_load.h"
#include "cli/pages/page_units.h"
#include "cli/verbs.h"
#include "core/text/counted_text.h"
#include "io/pages/html_table.h"
#include "io/pages/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

constexpr std::size_t kComparedOnPage = 24;
constexpr std::size_t kStepsDrawn = 1500;

std::string signed_percent(double share) { return fmt::format("{:+.1f} %", 100 * share); }

std::string error_of(const RunView& run, double predicted_s, double measured_s) {
  if (!run.is_planned_device) return "other device";
  return measured_s > 0 ? signed_percent(relative_error(predicted_s, measured_s)) : "n/a";
}

std::vector<Origin> both(const RunView& run) { return {run.plan.simulated(), run.measured()}; }

// Evenly spread ones of many, the last among them.
template <typename Value>
std::vector<PlotPoint> points_by_step(const std::vector<RunStep>& steps, Value value) {
  std::vector<PlotPoint> points;
  const std::size_t stride = (steps.size() + kStepsDrawn - 1) / kStepsDrawn;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i % stride != 0 && i + 1 != steps.size()) continue;
    const std::optional<double> y = value(steps[i]);
    if (y && std::isfinite(*y))
      points.push_back({static_cast<double>(steps[i].step), *y,
                        fmt::format("step {}: {:.6g}", steps[i].step, *y)});
  }
  return points;
}

PlotMark mark_of(std::size_t points) {
  return points <= 60 ? PlotMark::kLineAndDots : PlotMark::kLine;
}

Markup loss_figure(const RunView& run) {
  Plot plot;
  plot.description = "loss by step";
  plot.x = {"step"};
  plot.y = {"loss (nat)"};
  PlotSeries losses{"loss", points_by_step(run.steps, [](const RunStep& s) { return s.loss; }),
                    PlotMark::kLine, 0};
  if (losses.points.empty()) return paragraph("No step has a loss that is a number.");
  losses.mark = mark_of(losses.points.size());
  plot.series.push_back(std::move(losses));
  return figure_of(plot_picture(plot), {run.measured()});
}

Markup step_time_figure(const RunView& run) {
  double most = run.predicted_step_s;
  for (const RunStep& step : run.steps)
    if (std::isfinite(step.seconds)) most = std::max(most, step.seconds);
  const AxisUnit unit = time_unit(most);
  Plot plot;
  plot.description = "time of every step, with the prediction";
  plot.x = {"step"};
  plot.y = {fmt::format("step time ({})", unit.name), false, true};
  PlotSeries times{"measured",
                   points_by_step(run.steps,
                                  [&](const RunStep& s) -> std::optional<double> {
                                    return s.seconds / unit.size;
                                  }),
                   PlotMark::kLine, 2};
  times.mark = mark_of(times.points.size());
  plot.series.push_back(std::move(times));
  plot.levels.push_back(
      {run.predicted_step_s / unit.size, "predicted " + time_text(run.predicted_step_s)});
  return figure_of(plot_picture(plot), both(run));
}

Markup rows_table(const RunView& run, const char* what, const std::vector<OperatorRow>& rows) {
  HtmlTable table({{what, false}, {"predicted", true}, {"measured", true}, {"error", true}});
  const std::size_t shown = std::min(rows.size(), kComparedOnPage);
  for (std::size_t i = 0; i < shown; ++i) {
    const OperatorRow& row = rows[i];
    table.add({code_of(row.name), Markup(time_text(row.predicted_s)),
               Markup(time_text(row.measured_s)),
               Markup(error_of(run, row.predicted_s, row.measured_s))});
  }
  return figure_of(table.markup() + left_out(rows.size(), shown, "row"), both(run));
}

Markup scatter_figure(const RunView& run) {
  Plot plot;
  plot.description = "predicted against measured time of every operator";
  plot.x = {"measured (s)", true};
  plot.y = {"predicted (s)", true};
  plot.diagonal = true;
  PlotSeries dots{"operators", {}, PlotMark::kDots, 0};
  for (const OperatorRow& row : run.operators)
    if (row.predicted_s > 0 && row.measured_s > 0)
      dots.points.push_back({row.measured_s, row.predicted_s,
                             fmt::format("{}: predicted {}, measured {}", row.name,
                                         time_text(row.predicted_s), time_text(row.measured_s))});
  if (dots.points.empty()) return {};
  plot.series.push_back(std::move(dots));
  return figure_of(plot_picture(plot), both(run));
}

Markup state_of_machine(const RunView& run) {
  Markup lines;
  if (!run.is_planned_device)
    lines +=
        warning_of(fmt::format("Predicted for {}, measured on {}: the run checks order and "
                               "losses of the plan, not its times.",
                               run.plan.planned.job.cluster.device.name, run.record.devices));
  if (const OthersLoad load{run.record.others_share.value_or(0), 0}; !load.is_quiet())
    lines += warning_of(busy_text(load) + " during the run: measured times are too long.");
  constexpr double kSameSpeed = 0.03;
  if (run.slowdown && std::abs(*run.slowdown - 1) >= kSameSpeed)
    lines += note_of(fmt::format(
        "The machine's processors were {:.0f} % {} during the run than when {} was measured; at "
        "their speed the prediction is {}.",
        100 * std::abs(1 - *run.slowdown), *run.slowdown > 1 ? "slower" : "faster",
        run.plan.planned.job.cluster.name, time_text(run.predicted_step_s * *run.slowdown)));
  return lines;
}

Markup end_of_run(const RunView& run) {
  const RunRecord& record = run.record;
  Markup lines;
  if (record.end != RunEnd::kComplete)
    lines += warning_of(fmt::format("This run was {} after {} of {}.", to_string(record.end),
                                    record.steps, counted(record.asked_steps, "step")));
  if (run.is_cut)
    lines += warning_of(
        fmt::format("The last line of {}/metrics.jsonl has no end and is left out.", run.name));
  if (record.skipped_steps > 0)
    lines += note_of(fmt::format("{} of {} changed no weight.", record.skipped_steps,
                                 counted(record.steps, "step")));
  return lines;
}

std::string order_text(const RunView& run) {
  if (!run.is_order_equal) return "not recorded";
  return *run.is_order_equal ? "equal" : "DIFFERENT";
}

}  // namespace

Markup run_head(const RunView& run) {
  const double measured_s = run.record.step_time_s;
  const bool has_time = measured_s > 0;
  Markup head = figure_of(
      tiles_of({{has_time ? time_text(measured_s) : "n/a", "a step, measured (median)"},
                {time_text(run.predicted_step_s), "a step, predicted"},
                {has_time ? error_of(run, run.predicted_step_s, measured_s) : "n/a",
                 "error of the prediction"},
                {fmt::format("{} of {}", run.record.steps, run.record.asked_steps), "steps made"},
                {order_text(run), "issue order, beside the simulator's"}}),
      both(run));
  if (!has_time)
    head +=
        note_of(fmt::format("{} leave no step time after {}.", counted(run.record.steps, "step"),
                            counted(run.record.warm_up_steps, "warm-up step")));
  return head + end_of_run(run) + state_of_machine(run);
}

PagePart training_part(const RunView& run) {
  Markup body = loss_figure(run) + step_time_figure(run);
  const RunRecord& record = run.record;
  if (record.step_time_s > 0)
    body += note_of(fmt::format(
        "Step time: median {}, quartiles {} and {}, without {}.", time_text(record.step_time_s),
        time_text(record.step_time_quartiles_s[0]), time_text(record.step_time_quartiles_s[1]),
        counted(record.warm_up_steps, "warm-up step")));
  return {"Loss and step time", body};
}

PagePart comparison_part(const RunView& run) {
  const std::string title = "Predicted against measured";
  if (run.operators.empty())
    return {title, paragraph("The run has no times per operator: `sextant run --profile 3` "
                             "measures them.")};
  Markup body = scatter_figure(run);
  if (const auto error = median_error(run.operators); error && run.is_planned_device)
    body += paragraph(fmt::format("Median error of {}: {}.",
                                  counted(run.operators.size(), "operator"), percent(*error)));
  if (!run.kinds.empty()) body += rows_table(run, "kind of operator", run.kinds);
  body += rows_table(run, "operator", run.operators);
  return {title, body};
}

}  // namespace sextant
