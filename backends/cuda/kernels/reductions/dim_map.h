// How the elements of one tensor fall into others that have only some of its dims: results of
// reductions, statistics, weights. Dims that are alike are one.
#pragma once

#include <cstdint>

namespace sextant {

// Walks positions in row-major order and says where they fall in up to two tensors.
struct DimMap {
  static constexpr int kMostDims = 16, kMostTensors = 2;
  int dims = 0;
  std::int64_t positions = 1;
  std::int64_t extents[kMostDims] = {};  // last dim first
  std::int64_t strides[kMostTensors][kMostDims] = {};
};

}  // namespace sextant
