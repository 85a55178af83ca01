// Products of equal sizes as one call of cuBLASLt, which finds their matrices at equal distances
// where they lie so, else by arrays of pointers.
#pragma once

#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/products/product.h"
#include "backends/cuda/kernels/shared/device_table.h"

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace sextant {

// Most in one batch: an array of so many pointers is as long as the alignment that it shows.
inline constexpr std::size_t kMostInProductBatch = 32;

// Arrays of the pointers of a batch, on the device. C is nothing or D, of all products alike.
class ProductPointers {
 public:
  explicit ProductPointers(std::span<const ProductAddresses> addresses);
  // For the call of the batch by pointers, but for its bias.
  ProductAddresses addresses() const;

 private:
  DeviceTable<const void*> table_;
  bool accumulates_ = false;
};

// One call for all products, which are like `each`, with the epilogue kNone or kBias. Nothing
// unless it was measured to take at least a hundredth less than the cheapest division into smaller
// batches and calls like `alone`; as many of these save `saved_by_singles_s` seconds together by
// epilogues that a batch cannot have. Nothing either without tuning, where a matrix does not begin
// at a multiple of 256 bytes, and where results of 16 bits accumulate. The matrices of one product
// may be operands of another, but not results.
std::unique_ptr<CudaKernel> make_product_batch(const Product& each,
                                               std::span<const ProductAddresses> addresses,
                                               const ProductCall& alone, double saved_by_singles_s,
                                               CudaContext& device);

}  // namespace sextant
