// How far predictions are from measurements: relative errors, rank correlation, regret.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

struct PredictedAndMeasured {
  double predicted = 0, measured = 0;  // both positive

  double error() const { return predicted / measured - 1; }
};

struct ErrorSummary {
  std::size_t rows = 0;
  double mape = 0;        // mean of the absolute relative errors
  double median = 0;      // of the same
  double bias = 0;        // mean of the signed ones: negative means predicted too fast
  std::size_t worst = 0;  // its index
  std::optional<double> spearman = {};  // from three rows on, and where not all are equal
};

// Of nothing: no rows and zeros.
ErrorSummary summarize(std::span<const PredictedAndMeasured> pairs);

// Spearman's rank correlation, ties with their mean rank.
std::optional<double> rank_correlation(std::span<const PredictedAndMeasured> pairs);

// By how much the run that is predicted to be fastest is measured slower than the fastest one; of
// equal predictions the slowest run counts. `pairs` must not be empty.
double regret(std::span<const PredictedAndMeasured> pairs);

}  // namespace sextant
