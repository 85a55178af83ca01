// Predictions beside measurements, row by row and by group.
#pragma once

#include "experiments/accuracy/observation.h"
#include "experiments/accuracy/prediction.h"
#include "experiments/accuracy/statistics.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct ComparedRow {
  Observation run;
  std::optional<Prediction> prediction;  // nothing: not comparable, run.problem says why
};

// Predicts every run that has no problem yet, on all cores; a plan that is refused becomes a
// problem. `progress` hears of finished rows, from any thread but never two at once. Rows that are
// not `is_own`, where that is given, are left as they are.
std::vector<ComparedRow> compare(std::vector<Observation> runs,
                                 const std::function<void(std::size_t done)>& progress,
                                 const std::function<bool(std::size_t row)>& is_own = {});

struct GroupReport {
  std::string name;
  std::size_t rows = 0, comparable = 0, calibration = 0;
  ErrorSummary time, memory, naive;       // without calibration rows
  std::string worst_time, worst_memory;   // ids
  double worst_time_error = 0;            // signed
  double most_underestimated_memory = 0;  // signed error, 0 if none is under-estimated
  // Over the choices with at least three plans.
  std::size_t choices = 0;
  double mean_regret = 0, worst_regret = 0;
};

// One per group in order of first appearance, then all Megatron rows on A100s together.
std::vector<GroupReport> summarize_groups(const std::vector<ComparedRow>& rows);
inline constexpr const char* kMegatronGroup = "A100 Megatron-style, all";

std::string to_jsonl(const std::vector<ComparedRow>& rows);
std::string to_table(const std::vector<GroupReport>& groups);
// Predicted over measured seconds, both axes logarithmic, one colour per group.
std::string to_scatter_svg(const std::vector<ComparedRow>& rows);

}  // namespace sextant
