// What a row has of a prediction, and back what summaries need of it.
#include "experiments/accuracy/accuracy_sweep.h"

#include "compiler/expand/plan.h"
#include "core/base/check.h"
#include "experiments/accuracy/prediction.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/reports/named_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace sextant {

namespace {

constexpr double kBytesOfGibibyte = 1024.0 * 1024.0 * 1024.0;
constexpr double kWantedMedian = 0.08;  // of runs that no parameter of the model was set with
constexpr double kWantedRegret = 0.05;

using Runs = std::vector<Observation>;

std::string joined_text(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

// All that a prediction follows from; the program itself is in every key.
std::string identity_of(const Observation& run) {
  return text_hash(fmt::format("{} {} {} {} {} {} {} {} {} {} {}", to_json_text(run.model),
                               to_string(run.strategy), to_json_text(run.cluster), run.group,
                               run.software.name, run.eight_bit_products, run.keeps_products,
                               run.global_batch, run.sequence, to_string(run.dtype), run.problem));
}

SweepPoint point_of(const Observation& run) {
  SweepPoint point = {.name = run.id,
                      .parameters = {{"place", run.place},
                                     {"group", run.group},
                                     {"model", run.model.name},
                                     {"calibration", run.is_calibration ? "yes" : "no"},
                                     {"identity", identity_of(run)}}};
  if (run.problem.empty()) {
    point.parameters.emplace_back("device", run.cluster.device.name);
    point.parameters.emplace_back("strategy", to_string(run.strategy));
    point.parameters.emplace_back("global_batch", static_cast<double>(run.global_batch));
    point.parameters.emplace_back("sequence", static_cast<double>(run.sequence));
    point.parameters.emplace_back("dtype", std::string(to_string(run.dtype)));
    point.parameters.emplace_back("software", run.software.name);
    point.parameters.emplace_back("memory_counted", std::string(to_string(run.software.counted)));
    point.parameters.emplace_back("assumptions", joined_text(run.assumptions));
  }
  if (run.step_s) point.reference.emplace_back("step_s", *run.step_s);
  if (run.memory_gib)
    point.reference.emplace_back("memory_bytes", *run.memory_gib * kBytesOfGibibyte);
  return point;
}

// `kernels.NAME_s` and `beside.NAME_bytes`.
constexpr std::string_view kKernels = "kernels.", kSeconds = "_s", kBeside = "beside.",
                           kBytes = "_bytes";

PointResult result_of(const Prediction& prediction) {
  PointResult result = {.values = {{"step_s", prediction.step_s},
                                   {"naive_s", prediction.naive_s},
                                   {"memory_bytes", static_cast<double>(prediction.memory().value)},
                                   {"arena_bytes", static_cast<double>(prediction.arena.value)},
                                   {"added_s", prediction.added_s}}};
  for (const NamedPart& part : kNamedParts)
    result.values.emplace_back(part.key() + "_s", (prediction.parts.*part.part).mean_s);
  for (const auto& [kind, seconds] : prediction.kernels_s)
    result.values.emplace_back(fmt::format("{}{}{}", kKernels, kind, kSeconds), seconds);
  for (const LibraryUse& use : prediction.library)
    result.values.emplace_back(fmt::format("{}{}{}", kBeside, use.name, kBytes),
                               static_cast<double>(use.bytes.value));
  return result;
}

std::optional<std::string> name_between(std::string_view key, std::string_view before,
                                        std::string_view behind) {
  if (!key.starts_with(before) || !key.ends_with(behind)) return std::nullopt;
  return std::string(key.substr(before.size(), key.size() - before.size() - behind.size()));
}

// The inverse of result_of: parts have their means alone.
Prediction prediction_of(const Fields& values) {
  const auto number = [&](std::string_view key) { return number_of(values, key).value_or(0); };
  const auto bytes = [](double value) { return Bytes(std::llround(value)); };
  Prediction prediction;
  prediction.step_s = number("step_s");
  prediction.naive_s = number("naive_s");
  prediction.added_s = number("added_s");
  prediction.arena = bytes(number("arena_bytes"));
  for (const NamedPart& part : kNamedParts)
    (prediction.parts.*part.part).mean_s = number(part.key() + "_s");
  for (const auto& [key, value] : values) {
    const auto* real = std::get_if<double>(&value);
    if (real == nullptr) continue;
    if (const auto kind = name_between(key, kKernels, kSeconds))
      prediction.kernels_s[*kind] = *real;
    else if (const auto use = name_between(key, kBeside, kBytes))
      prediction.library.push_back({.name = *use, .bytes = bytes(*real), .source = {}});
  }
  return prediction;
}

// A plan that is refused is an answer, whatever refuses it; a bug and a rank that was lost are
// none.
PointResult predicted(const Observation& run) {
  require(run.problem.empty(), ErrorCode::kInfeasible, "{}", run.problem);
  try {
    return result_of(predict(run));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal || error.code() == ErrorCode::kRankFailed) throw;
    throw Error(ErrorCode::kInfeasible, error.what());
  }
}

// Over all groups; the summary of every group is the report's.
ShapeClaim median_shape(const std::vector<ComparedRow>& rows) {
  ShapeClaim shape = {
      fmt::format("half of the steps are predicted within {:.0f} %", 100 * kWantedMedian),
      std::nullopt, "no run has a measured step and a prediction"};
  std::vector<PredictedAndMeasured> pairs;
  for (const ComparedRow& row : rows)
    if (row.prediction && row.run.step_s && !row.run.is_calibration)
      pairs.push_back({row.prediction->step_s, *row.run.step_s});
  if (pairs.empty()) return shape;
  const ErrorSummary errors = summarize(pairs);
  shape.holds = errors.median < kWantedMedian;
  shape.detail = fmt::format("median {:.1f} %, mean {:.1f} % of {} that no number was set with",
                             100 * errors.median, 100 * errors.mape, pairs.size());
  return shape;
}

ShapeClaim regret_shape(const std::vector<ComparedRow>& rows) {
  ShapeClaim shape = {
      fmt::format("the plan that is predicted fastest loses less than {:.0f} % to the fastest",
                  100 * kWantedRegret),
      std::nullopt, "no choice between three measured plans or more"};
  std::size_t choices = 0;
  double sum = 0, worst = 0;
  for (const GroupReport& group : summarize_groups(rows)) {
    if (group.name == kMegatronGroup) continue;  // of rows that are in others too
    choices += group.choices;
    sum += group.mean_regret * static_cast<double>(group.choices);
    worst = std::max(worst, group.worst_regret);
  }
  if (choices == 0) return shape;
  const double mean = sum / static_cast<double>(choices);
  shape.holds = mean < kWantedRegret;
  shape.detail =
      fmt::format("mean {:.1f} %, worst {:.1f} % of {} choices", 100 * mean, 100 * worst, choices);
  return shape;
}

std::map<std::string, const SweepRow*> rows_by_point(const std::vector<SweepRow>& rows) {
  std::map<std::string, const SweepRow*> found;
  for (const SweepRow& row : rows) found[row.point.name] = &row;
  return found;
}

}  // namespace

std::vector<ComparedRow> compared_rows(const std::vector<Observation>& runs,
                                       const std::vector<SweepRow>& rows) {
  const auto by_point = rows_by_point(rows);
  std::vector<ComparedRow> compared;
  for (const Observation& run : runs) {
    ComparedRow& made = compared.emplace_back();
    made.run = run;
    const auto row = by_point.find(run.id);
    if (row == by_point.end()) continue;
    if (row->second->error) {
      made.run.problem = row->second->error->text;
      continue;
    }
    made.prediction = prediction_of(row->second->result.values);
  }
  return compared;
}

Experiment accuracy_experiment(const std::vector<Observation>& runs) {
  const auto all = std::make_shared<const Runs>(runs);
  std::vector<SweepPoint> points;
  std::map<std::string, std::size_t> places;
  for (std::size_t index = 0; index < all->size(); ++index) {
    points.push_back(point_of((*all)[index]));
    places[points.back().name] = index;
  }
  require_unique_points(points);
  return {
      .name = "accuracy",
      .question = "How far are predictions from published and measured runs?",
      .expectation = "half of the steps within 8 %, and plans that lose less than 5 %",
      .baseline = "6 x parameters x tokens at half of the peak",
      .columns = {{"group", "group", ""},
                  {"model", "model", ""},
                  {"step_s", "step", "s", "step_s"},
                  {"memory_bytes", "memory", "B", "memory_bytes"},
                  {"naive_s", "baseline", "s"},
                  {"strategy", "plan", ""}},
      .points = [points](bool) { return points; },
      .evaluate = [all, places](
                      const SweepPoint& point) { return predicted((*all)[places.at(point.name)]); },
      .shapes =
          [all](const ResultRows& rows) {
            const std::vector<ComparedRow> compared = compared_rows(*all, rows.all());
            return std::vector<ShapeClaim>{median_shape(compared), regret_shape(compared)};
          },
      .figures =
          [all](const ResultRows& rows) {
            return std::vector<Figure>{
                {"accuracy.svg", to_scatter_svg(compared_rows(*all, rows.all()))}};
          },
      .said =
          [all](const ResultRows& rows) {
            return to_table(summarize_groups(compared_rows(*all, rows.all())));
          }};
}

}  // namespace sextant
