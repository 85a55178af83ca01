// Strides of packed tensors, row-major and channels-last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

// Elements from one index of a dim to the next; the last dim is a run.
inline std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t dim = extents.size(); dim-- > 1;) strides[dim - 1] = strides[dim] * extents[dim];
  return strides;
}

// Elements from one index of a dim to the next, where dim 1 is the run and the others keep their
// order.
inline std::vector<std::int64_t> channels_last_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  std::int64_t step = extents[1];
  for (std::size_t dim = extents.size(); dim-- > 2;) {
    strides[dim] = step;
    step *= extents[dim];
  }
  strides[0] = step;
  return strides;
}

}  // namespace sextant
