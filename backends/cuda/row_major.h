// Strides of packed row-major tensors.
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

}  // namespace sextant
