// Times of algorithms for one product, on memory of its own.
#pragma once

#include "backends/cuda/kernels/products/product.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sextant {

// How long it may take: short runs in turn, some 0.1 s, or behind them the nearly fastest one by
// one for so long that the card comes to its limit of power, up to a second more. There the one
// that moves less may overtake the one that computes faster.
enum class MeasuringEffort : std::uint8_t { kShort, kUnderLoad };

// The fastest of `candidates` and its time in short runs; nothing when none runs or when there is
// no memory for the matrices.
struct MeasuredProduct {
  std::size_t candidate = 0;
  double seconds = 0;
};
std::optional<MeasuredProduct> fastest_product(const ProductCall& call,
                                               std::span<const cublasLtMatmulAlgo_t> candidates,
                                               MeasuringEffort effort, CudaContext& device);

// Seconds of a batch that is not packed and of as many products like `each`, in turn on the same
// memory; nothing when there is not enough. Both algorithms can run.
struct BatchTimes {
  double together = 0, apart = 0;
};
std::optional<BatchTimes> times_of_batch(const ProductCall& batch,
                                         const cublasLtMatmulAlgo_t& of_batch,
                                         const ProductCall& each,
                                         const cublasLtMatmulAlgo_t& of_each, CudaContext& device);

}  // namespace sextant
