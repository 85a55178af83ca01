// A row-major walk over a tensor that also says where each of its elements falls in tensors that
// have only some of its dims: the results of reductions, statistics, weights.
#pragma once

#include "core/tensors/shape.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

// Per dim of `shape`, how far a step along it moves in a row-major tensor of the dims with
// `has_dim`; 0 along the others.
std::vector<std::size_t> strides_onto(const Shape& shape, const std::vector<bool>& has_dim);

// Calls `visit(element, positions)` for every element, in order; one position per entry of
// `strides`.
template <std::size_t kTensors, typename Visit>
void walk(const Shape& shape, const std::array<std::vector<std::size_t>, kTensors>& strides,
          const Visit& visit) {
  std::vector<std::int64_t> index(shape.rank(), 0);
  std::array<std::size_t, kTensors> at{};
  for (std::size_t element = 0; element < static_cast<std::size_t>(shape.elements()); ++element) {
    visit(element, at);
    for (std::size_t dim = shape.rank(); dim-- > 0;) {
      const bool wraps = ++index[dim] == shape[dim];
      for (std::size_t tensor = 0; tensor < kTensors; ++tensor) {
        const std::size_t step = strides[tensor][dim];
        if (wraps)
          at[tensor] -= step * static_cast<std::size_t>(shape[dim] - 1);
        else
          at[tensor] += step;
      }
      if (!wraps) break;
      index[dim] = 0;
    }
  }
}

}  // namespace sextant
