// Logarithmic axes are linear ones of logarithms.
#include "io/pages/chart_scale.h"

#include <cmath>

namespace sextant {
namespace {

// A step of 1, 2 or 5 times a power of ten that gives about six ticks.
double tick_step(double span) {
  const double rough = span / 6;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (power * factor >= rough) return power * factor;
  return power * 10;
}

}  // namespace

ChartScale::ChartScale(bool logarithmic, ChartRange range, double first, double last, bool tight)
    : logarithmic_(logarithmic), first_(first), last_(last) {
  if (range.is_empty()) range = logarithmic_ ? ChartRange{1, 10} : ChartRange{0, 1};
  low_ = inner(range.low);
  high_ = inner(range.high);
  if (high_ - low_ < 1e-12 * std::max(1.0, std::abs(high_))) {
    const double pad = logarithmic_ ? 0.5 : std::max(0.5, std::abs(high_) / 2);
    low_ -= pad;
    high_ += pad;
  }
  if (tight) return;
  const double margin = 0.05 * (high_ - low_);
  const bool from_zero = !logarithmic_ && low_ >= 0 && low_ - margin < 0;
  low_ = from_zero ? 0 : low_ - margin;
  high_ += margin;
}

double ChartScale::inner(double value) const { return logarithmic_ ? std::log10(value) : value; }
double ChartScale::outer(double value) const {
  return logarithmic_ ? std::pow(10.0, value) : value;
}

double ChartScale::place(double value) const {
  return first_ + (inner(value) - low_) / (high_ - low_) * (last_ - first_);
}

std::vector<double> ChartScale::ticks() const {
  return logarithmic_ ? logarithmic_ticks() : linear_ticks();
}

std::vector<double> ChartScale::linear_ticks() const {
  std::vector<double> ticks;
  const double step = tick_step(high_ - low_);
  for (double k = std::ceil(low_ / step); k * step <= high_; ++k) ticks.push_back(k * step);
  return ticks;
}

std::vector<double> ChartScale::logarithmic_ticks() const {
  std::vector<double> ticks;
  const bool fine = high_ - low_ < 2.5;
  for (double power = std::floor(low_); power <= high_; ++power)
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (factor > 1 && !fine) continue;
      const double value = factor * std::pow(10.0, power);
      if (inner(value) >= low_ && inner(value) <= high_) ticks.push_back(value);
    }
  return ticks;
}

}  // namespace sextant
