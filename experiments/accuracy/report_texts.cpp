// The report as JSON lines, as a table and as a picture.
#include "core/base/check.h"
#include "core/text/json_text.h"
#include "experiments/accuracy/report.h"
#include "io/svg_chart.h"
#include "simulator/reports/named_parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kBytesPerGibibyte = 1024.0 * 1024.0 * 1024.0;

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

void add_prediction(const ComparedRow& row, Json& json) {
  const Prediction& prediction = *row.prediction;
  const StepParts& parts = prediction.parts;
  json["predicted_s"] = prediction.step_s;
  json["time_error"] = row.run.step_s ? Json(prediction.step_s / *row.run.step_s - 1) : Json();
  for (const NamedPart& part : kNamedParts) json["parts_s"][part.key()] = (parts.*part.part).mean_s;
  json["parts_s"]["added"] = prediction.added_s;
  json["kernels_s"] = prediction.kernels_s;
  const double gib = static_cast<double>(prediction.memory().value) / kBytesPerGibibyte;
  json["predicted_gib"] = gib;
  json["arena_gib"] = static_cast<double>(prediction.arena.value) / kBytesPerGibibyte;
  json["beside_arena_gib"] = Json::object();
  for (const LibraryUse& use : prediction.library)
    json["beside_arena_gib"][use.name] = static_cast<double>(use.bytes.value) / kBytesPerGibibyte;
  json["memory_counted"] = to_string(row.run.software.counted);
  json["memory_error"] = row.run.memory_gib ? Json(gib / *row.run.memory_gib - 1) : Json();
  json["naive_s"] = prediction.naive_s;
  json["naive_error"] = row.run.step_s ? Json(prediction.naive_s / *row.run.step_s - 1) : Json();
}

Json row_json(const ComparedRow& row) {
  const Observation& run = row.run;
  Json json = {{"id", run.id},
               {"place", run.place},
               {"group", run.group},
               {"comparable", row.prediction.has_value()}};
  if (!row.prediction) json["reason"] = run.problem;
  json["calibration"] = run.is_calibration;
  json["model"] = run.model.name;
  if (row.prediction) {
    json["device"] = run.cluster.device.name;
    json["strategy"] = to_string(run.strategy);
    json["global_batch"] = run.global_batch;
    json["sequence"] = run.sequence;
    json["dtype"] = to_string(run.dtype);
    json["software"] = run.software.name;
    json["assumptions"] = run.assumptions;
  }
  json["measured_s"] = optional_json(run.step_s);
  json["measured_gib"] = optional_json(run.memory_gib);
  if (row.prediction) add_prediction(row, json);
  return json;
}

std::string percent_text(double share) { return fmt::format("{:.1f} %", 100 * share); }

}  // namespace

std::string to_jsonl(const std::vector<ComparedRow>& rows) {
  std::string text;
  for (const ComparedRow& row : rows) text += json_text(row_json(row)) + "\n";
  return text;
}

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
