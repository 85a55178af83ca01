// The report as a table and as a picture.
#include "experiments/accuracy/report.h"
#include "io/svg_chart.h"

#include <fmt/core.h>

#include <algorithm>

namespace sextant {
namespace {

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

std::string to_table(const std::vector<GroupReport>& groups) {
  std::string text =
      "| group | rows | compared | MAPE | median | worst | bias | Spearman | regret mean / worst | "
      "naive MAPE | memory MAPE | memory under |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const GroupReport& group : groups) {
    const bool has_time = group.time.rows > 0, has_memory = group.memory.rows > 0;
    const double worst = has_time ? group.worst_time_error : 0;
    text += fmt::format(
        "| {} | {} | {}{} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", group.name, group.rows,
        group.comparable,
        group.calibration > 0 ? fmt::format(" ({} calibrate)", group.calibration) : "",
        has_time ? percent_text(group.time.mape) : "",
        has_time ? percent_text(group.time.median) : "",
        has_time ? fmt::format("{} {}", percent_text(worst), group.worst_time) : "",
        has_time ? percent_text(group.time.bias) : "",
        group.time.spearman ? fmt::format("{:.3f}", *group.time.spearman) : "",
        group.choices > 0 ? fmt::format("{} / {} of {}", percent_text(group.mean_regret),
                                        percent_text(group.worst_regret), group.choices)
                          : "",
        has_time ? percent_text(group.naive.mape) : "",
        has_memory ? percent_text(group.memory.mape) : "",
        has_memory ? percent_text(group.most_underestimated_memory) : "");
  }
  return text;
}

std::string to_scatter_svg(const std::vector<ComparedRow>& rows) {
  Chart chart;
  chart.title = "Predicted and measured training steps";
  chart.x = {.title = "measured step, s", .logarithmic = true};
  chart.y = {.title = "predicted step, s", .logarithmic = true};
  chart.diagonal = true;
  for (const ComparedRow& row : rows) {
    if (!row.prediction || !row.run.step_s) continue;
    auto series =
        std::find_if(chart.series.begin(), chart.series.end(),
                     [&](const ChartSeries& other) { return other.name == row.run.group; });
    if (series == chart.series.end())
      series = chart.series.insert(series, ChartSeries{.name = row.run.group, .points = {}});
    series->points.push_back(
        {*row.run.step_s, row.prediction->step_s, row.run.id + " " + row.run.model.name});
  }
  return to_svg(chart);
}

}  // namespace sextant
