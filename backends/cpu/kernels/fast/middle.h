// A tensor seen as [outer, kept, inner], where sums go over outer and inner: what statistics of
// batch norm, means over positions and sums over rows have in common.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"
#include "core/operators/reductions/reduced_dims.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace sextant {

struct Middle {
  std::int64_t outer = 1, kept = 1, inner = 1;
  std::int64_t at(std::int64_t row, std::int64_t index) const {
    return (row * kept + index) * inner;
  }
};

// Nothing where the dims that are kept do not stand together, or the tensor is empty.
inline std::optional<Middle> middle_of(const Shape& shape, const ReducedDims& dims) {
  Middle middle;
  bool has_kept = false, has_inner = false;
  for (std::size_t dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] == 0) return std::nullopt;
    if (shape[dim] == 1) continue;
    if (!dims.contains(dim)) {
      if (has_inner) return std::nullopt;
      has_kept = true;
      middle.kept *= shape[dim];
    } else if (has_kept) {
      has_inner = true;
      middle.inner *= shape[dim];
    } else {
      middle.outer *= shape[dim];
    }
  }
  // One row of all elements, not a column of them.
  if (middle.kept == 1) middle.inner *= std::exchange(middle.outer, 1);
  return middle;
}

// What input 0 is by the attribute `dims`.
inline std::optional<Middle> middle_of(const KernelContext& context) {
  const Shape& shape = context.in[0].local.shape;
  return middle_of(shape, ReducedDims(context.actor->kind, context.attributes(), shape.rank()));
}

}  // namespace sextant
