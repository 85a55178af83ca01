// What kernels of tensors in 8 bits read off a call.
#pragma once

#include "backends/cpu/kernels/shared/wide.h"

#include <cstddef>
#include <cstdint>

namespace sextant {

// Terms of each sum: the product of the contracted extents.
inline std::int64_t scaled_inner_extent(const KernelContext& context) {
  const Shape& b = context.in[1].local.shape;
  std::int64_t terms = 1;
  for (std::size_t dim = 1; dim < b.rank(); ++dim) terms *= b[dim];
  return terms;
}

inline double scalar_of(const KernelContext& context, std::size_t input) {
  const KernelOperand& operand = context.in[input];
  return wide_element<double>(operand.local.dtype, operand.data, 0);
}

// What a sum of products of the stored values stands for: the product of both scales.
inline double scales_of(const KernelContext& context) {
  return scalar_of(context, 2) * scalar_of(context, 3);
}

}  // namespace sextant
