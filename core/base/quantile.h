// Order statistics, by one definition for all that is printed.
#pragma once

#include <span>
#include <vector>

namespace sextant {

// The value at place q (n - 1) of n ascending ones, linear between neighbours: 0 is the least, 1
// the most, 0.5 the median. Throws Error(kUsage) for no values and for a q outside 0..1.
double quantile(std::span<const double> ascending, double q);

// Of values in any order.
double median(std::vector<double> values);

}  // namespace sextant
