// Times of algorithms for one product, on memory of its own.
#pragma once

#include "backends/cuda/kernels/products/product.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

// The fastest of `candidates` and its time; nothing when none runs or when there is no memory for
// the matrices.
struct MeasuredProduct {
  std::size_t candidate = 0;
  double seconds = 0;
};
std::optional<MeasuredProduct> fastest_product(const ProductCall& call,
                                               std::span<const cublasLtMatmulAlgo_t> candidates,
                                               CudaContext& device);

}  // namespace sextant
