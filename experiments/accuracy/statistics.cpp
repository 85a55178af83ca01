// Ranks by sorting, everything else by summing up.
#include "experiments/accuracy/statistics.h"

#include "core/base/check.h"
#include "core/base/quantile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace sextant {
namespace {

// Of each value, ties with their mean.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    const double mean = static_cast<double>(begin + end - 1) / 2;
    for (; begin < end; ++begin) ranks[order[begin]] = mean;
  }
  return ranks;
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::optional<double> rank_correlation(std::span<const PredictedAndMeasured> pairs) {
  if (pairs.size() < 3) return std::nullopt;
  std::vector<double> predicted, measured;
  for (const PredictedAndMeasured& pair : pairs) {
    predicted.push_back(pair.predicted);
    measured.push_back(pair.measured);
  }
  const std::vector<double> x = ranks_of(predicted), y = ranks_of(measured);
  const double middle = static_cast<double>(pairs.size() - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - middle) * (y[i] - middle);
    xx += (x[i] - middle) * (x[i] - middle);
    yy += (y[i] - middle) * (y[i] - middle);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

ErrorSummary summarize(std::span<const PredictedAndMeasured> pairs) {
  ErrorSummary summary;
  summary.rows = pairs.size();
  if (pairs.empty()) return summary;
  std::vector<double> signed_errors, absolute;
  for (const PredictedAndMeasured& pair : pairs) {
    signed_errors.push_back(pair.error());
    absolute.push_back(std::abs(pair.error()));
  }
  summary.mape = mean_of(absolute);
  summary.median = median(absolute);
  summary.bias = mean_of(signed_errors);
  summary.worst = static_cast<std::size_t>(std::max_element(absolute.begin(), absolute.end()) -
                                           absolute.begin());
  summary.spearman = rank_correlation(pairs);
  return summary;
}

double regret(std::span<const PredictedAndMeasured> pairs) {
  require(!pairs.empty(), ErrorCode::kUsage, "a regret wants at least one run");
  const PredictedAndMeasured* picked = &pairs.front();
  double best = pairs.front().measured;
  for (const PredictedAndMeasured& pair : pairs) {
    best = std::min(best, pair.measured);
    const bool is_tie = pair.predicted == picked->predicted;
    if (pair.predicted < picked->predicted || (is_tie && pair.measured > picked->measured))
      picked = &pair;
  }
  return picked->measured / best - 1;
}

}  // namespace sextant
