// How many products of which sizes a batch_matmul forms, read off its operands.
#pragma once

#include "backends/cpu/kernels/shared/kernel.h"

#include <cstddef>
#include <cstdint>

namespace sextant {

// Each [m, k] x [k, n] -> [m, n]; an operand may be stored transposed.
struct BatchMatmulSizes {
  std::int64_t count = 1, m = 0, n = 0, k = 0;
  bool x_transposed = false, w_transposed = false;
};

inline BatchMatmulSizes batch_matmul_sizes(const KernelContext& context) {
  BatchMatmulSizes sizes;
  sizes.x_transposed = context.attributes().boolean_or("transpose_x", false);
  sizes.w_transposed = context.attributes().boolean_or("transpose_w", false);
  const Shape &in = context.in[0].local.shape, &out = context.out[0].local.shape;
  const std::size_t rank = out.rank();
  sizes.m = out[rank - 2];
  sizes.n = out[rank - 1];
  sizes.k = in[sizes.x_transposed ? rank - 2 : rank - 1];
  for (std::size_t dim = 0; dim + 2 < rank; ++dim) sizes.count *= out[dim];
  return sizes;
}

}  // namespace sextant
