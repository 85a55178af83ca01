// How a kernel finds the elements of operands that stretch: the output is walked in order, each
// operand has a stride per dim, 0 where it repeats.
#pragma once

#include <cstdint>

namespace sextant {

struct Strides {
  static constexpr int kMostDims = 16;
  static constexpr int kMostOperands = 4;

  int dims = 0;                          // 1: one run through the output
  std::int64_t extents[kMostDims] = {};  // of the output, last first
  std::int64_t strides[kMostOperands][kMostDims] = {};
};

}  // namespace sextant
