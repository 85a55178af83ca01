// Interpolated order statistics.
#include "core/base/quantile.h"

#include "core/base/check.h"

#include <algorithm>
#include <cmath>

namespace sextant {

double quantile(std::span<const double> ascending, double q) {
  require(!ascending.empty(), ErrorCode::kUsage, "a quantile of no values");
  require(q >= 0 && q <= 1, ErrorCode::kUsage, "the quantile {}: wanted 0 to 1", q);
  const double place = q * static_cast<double>(ascending.size() - 1);
  const double below = std::floor(place);
  const double low = ascending[static_cast<std::size_t>(below)];
  const double high = ascending[static_cast<std::size_t>(std::ceil(place))];
  return low == high ? low : low + (high - low) * (place - below);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return quantile(values, 0.5);
}

}  // namespace sextant
