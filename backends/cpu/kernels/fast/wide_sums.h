// Sums of f32 rows in double, in lanes.
#pragma once

#include <cstdint>

namespace sextant {

double wide_sum(const float* x, std::int64_t count);
// The sum of (x - mean)^2.
double wide_squares(const float* x, float mean, std::int64_t count);

struct WideGradSums {
  double dy = 0, dy_x = 0;  // sums of dy, and of dy (x - mean)
};
WideGradSums wide_grad_sums(const float* x, float mean, const float* dy, std::int64_t count);

}  // namespace sextant
