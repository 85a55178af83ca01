// Values of an axis to places along it, and where its ticks are. Linear or logarithmic.
#pragma once

#include <algorithm>
#include <limits>
#include <vector>

namespace sextant {

struct ChartRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool is_empty() const { return low > high; }
};

class ChartScale {
 public:
  // The range with a margin lies between `first` and `last`; one that is all positive does not
  // reach below zero. `tight`: without a margin.
  ChartScale(bool logarithmic, ChartRange range, double first, double last, bool tight = false);

  double place(double value) const;
  double low() const { return outer(low_); }
  double high() const { return outer(high_); }

  // Multiples of 1, 2 or 5 times a power of ten, about six; of a logarithmic axis powers of ten,
  // with 2 and 5 between where there are few.
  std::vector<double> ticks() const;

 private:
  double inner(double value) const;
  double outer(double value) const;
  std::vector<double> linear_ticks() const;
  std::vector<double> logarithmic_ticks() const;

  bool logarithmic_;
  double first_, last_;
  double low_ = 0, high_ = 1;
};

}  // namespace sextant
