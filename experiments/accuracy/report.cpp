// Sums over groups.
#include "experiments/accuracy/report.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

namespace sextant {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;
constexpr std::size_t kFewestPlans = 3;

std::vector<const ComparedRow*> rows_of(const std::vector<ComparedRow>& rows,
                                        const std::function<bool(const ComparedRow&)>& wanted) {
  std::vector<const ComparedRow*> found;
  for (const ComparedRow& row : rows)
    if (wanted(row)) found.push_back(&row);
  return found;
}

struct Pairs {
  std::vector<PredictedAndMeasured> values;
  std::vector<std::string> ids;

  void add(const std::string& id, double predicted, double measured) {
    values.push_back({predicted, measured});
    ids.push_back(id);
  }
  std::string worst(const ErrorSummary& summary) const {
    return ids.empty() ? "" : ids[summary.worst];
  }
};

void summarize_errors(const std::vector<const ComparedRow*>& rows, GroupReport& report) {
  Pairs time, memory, naive;
  for (const ComparedRow* row : rows) {
    const Observation& run = row->run;
    report.calibration += run.is_calibration ? 1 : 0;
    if (!row->prediction) continue;
    ++report.comparable;
    if (run.is_calibration) continue;
    if (run.step_s) time.add(run.id, row->prediction->step_s, *run.step_s);
    if (run.step_s) naive.add(run.id, row->prediction->naive_s, *run.step_s);
    if (run.memory_gib)
      memory.add(run.id, static_cast<double>(row->prediction->memory().value) / kGibibyte,
                 *run.memory_gib);
  }
  report.time = summarize(time.values);
  report.memory = summarize(memory.values);
  report.naive = summarize(naive.values);
  report.worst_time = time.worst(report.time);
  if (report.time.rows > 0) report.worst_time_error = time.values[report.time.worst].error();
  report.worst_memory = memory.worst(report.memory);
  for (const PredictedAndMeasured& pair : memory.values)
    report.most_underestimated_memory = std::min(report.most_underestimated_memory, pair.error());
}

// Calibration rows are plans to choose from too: leaving out the best one would hide a regret.
void summarize_choices(const std::vector<const ComparedRow*>& rows, GroupReport& report) {
  std::map<std::string, std::vector<PredictedAndMeasured>> choices;
  for (const ComparedRow* row : rows)
    if (row->prediction && row->run.step_s && !row->run.choice.empty())
      choices[row->run.choice].push_back({row->prediction->step_s, *row->run.step_s});
  double sum = 0;
  for (const auto& [name, pairs] : choices) {
    if (pairs.size() < kFewestPlans) continue;
    const double lost = regret(pairs);
    ++report.choices;
    sum += lost;
    report.worst_regret = std::max(report.worst_regret, lost);
  }
  if (report.choices > 0) report.mean_regret = sum / static_cast<double>(report.choices);
}

GroupReport report_of(std::string name, const std::vector<const ComparedRow*>& rows) {
  GroupReport report;
  report.name = std::move(name);
  report.rows = rows.size();
  summarize_errors(rows, report);
  summarize_choices(rows, report);
  return report;
}

}  // namespace

std::vector<GroupReport> summarize_groups(const std::vector<ComparedRow>& rows) {
  std::vector<std::string> names;
  for (const ComparedRow& row : rows)
    if (std::find(names.begin(), names.end(), row.run.group) == names.end())
      names.push_back(row.run.group);
  std::vector<GroupReport> reports;
  for (const std::string& name : names)
    reports.push_back(report_of(
        name, rows_of(rows, [&](const ComparedRow& row) { return row.run.group == name; })));
  const auto megatron =
      rows_of(rows, [](const ComparedRow& row) { return row.run.is_megatron_a100; });
  if (!megatron.empty()) reports.push_back(report_of(kMegatronGroup, megatron));
  return reports;
}

}  // namespace sextant
