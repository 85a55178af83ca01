// What rows are multiplied by to have a variance of one: the rules for constant and for empty rows,
// in one place.
#pragma once

#include <cmath>
#include <cstdint>

namespace sextant {

// 1 / sqrt(variance + epsilon), 0 where that sum is 0: elements of a constant row are all 0 away
// from their mean, and 0 times infinity would make them NaN. With 0 the row becomes beta, and so do
// its gradients become 0. NaN stays NaN.
template <typename Real>
Real reciprocal_root(Real variance, Real epsilon) {
  const Real sum = variance + epsilon;
  return sum == Real(0) ? Real(0) : Real(1) / std::sqrt(sum);
}

// sum / n, 0 where there is nothing to average: an empty row has mean and variance 0, not NaN.
template <typename Real>
Real average(Real sum, std::int64_t n) {
  return n == 0 ? Real(0) : sum / static_cast<Real>(n);
}

}  // namespace sextant
