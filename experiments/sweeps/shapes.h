// Statements about two rows that several experiments make.
#pragma once

#include "experiments/sweeps/experiment.h"

#include <string>

namespace sextant {

// Of which value, in words: {"tflops_per_gpu", "TFLOP/s per GPU"}.
struct RowQuantity {
  std::string key, text;
};

// A bound on value(first) / value(second).
struct RatioBound {
  double least = 0;
  double most = 1e300;
};

// Cannot be said where a row is missing; the detail has both values, and the published ones where
// both rows have some.
ShapeClaim ratio_shape(const ResultRows& rows, std::string statement, const RowQuantity& quantity,
                       const std::string& first, const std::string& second,
                       const RatioBound& bound);

}  // namespace sextant
