// Predictions beside measurements, row by row and by group.
#pragma once

#include "experiments/accuracy/observation.h"
#include "experiments/accuracy/prediction.h"
#include "experiments/accuracy/statistics.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct ComparedRow {
  Observation run;
  std::optional<Prediction> prediction;  // nothing: not comparable, run.problem says why
};

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

std::string to_table(const std::vector<GroupReport>& groups);
// Predicted over measured seconds, both axes logarithmic, one colour per group.
std::string to_scatter_svg(const std::vector<ComparedRow>& rows);

}  // namespace sextant
