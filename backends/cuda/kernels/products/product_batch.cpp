// The arrays, biases at equal distances, and the kernel.
#include "backends/cuda/kernels/products/product_batch.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/kernels/products/gather_rows.h"
#include "backends/cuda/kernels/products/product_choices.h"
#include "core/base/check.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kBatchAlignment = 256;

bool begins_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % kBatchAlignment == 0;
}

bool has_aligned_matrices(const ProductAddresses& at) {
  return begins_aligned(at.a) && begins_aligned(at.b) && begins_aligned(at.d);
}

// Biases where cuBLASLt wants them, at equal distances: where they lie so, or behind each other in
// memory of their own, brought there in front of every product.
class BatchBiases {
 public:
  BatchBiases(const Product& each, std::span<const ProductAddresses> addresses) {
    const auto* const first = static_cast<const std::byte*>(addresses[0].bias);
    const std::int64_t size = size_of(each.out).value;
    const std::int64_t step = static_cast<const std::byte*>(addresses[1].bias) - first;
    bool is_regular = step > 0 && step % kBatchAlignment == 0 && begins_aligned(first);
    for (std::size_t i = 1; i < addresses.size(); ++i)
      is_regular &= addresses[i].bias == first + static_cast<std::int64_t>(i) * step;
    if (is_regular) {
      stride_ = step / size;
      bias_ = addresses[0].bias;
      return;
    }
    gather(each, addresses);
    stride_ = gather_.stride / size;
    bias_ = gather_.to;
  }
  void* bias() const { return bias_; }
  std::int64_t stride() const { return stride_; }
  void enqueue(cudaStream_t stream) const { SEXTANT_CUDA(enqueue_gather_rows(gather_, stream)); }

 private:
  void gather(const Product& each, std::span<const ProductAddresses> addresses) {
    std::vector<const void*> rows;
    gather_.bytes = each.m * size_of(each.out).value;
    gather_.stride = (gather_.bytes + kBatchAlignment - 1) / kBatchAlignment * kBatchAlignment;
    gather_.count = static_cast<std::int64_t>(addresses.size());
    gather_.is_aligned = gather_.bytes % 16 == 0;
    for (const ProductAddresses& at : addresses) {
      rows.push_back(at.bias);
      gather_.is_aligned &= reinterpret_cast<std::uintptr_t>(at.bias) % 16 == 0;
    }
    rows_ = DeviceTable<const void*>(rows);
    room_ = DeviceTable<std::byte>(
        std::vector<std::byte>(static_cast<std::size_t>(gather_.count * gather_.stride)));
    gather_.rows = rows_.rows();
    gather_.to = room_.rows();
  }

  void* bias_ = nullptr;
  std::int64_t stride_ = 0;
  DeviceTable<const void*> rows_;
  DeviceTable<std::byte> room_;
  GatherRowsArguments gather_;  // of nothing where biases lie at equal distances
};

// The distance in elements from each matrix to the next, where that is one and a multiple of 256.
std::optional<std::int64_t> stride_of(std::span<const ProductAddresses> addresses,
                                      const void* (*matrix)(const ProductAddresses&), DType dtype) {
  const auto address = [&](std::size_t i) {
    return std::bit_cast<std::intptr_t>(matrix(addresses[i]));
  };
  const std::intptr_t step = address(1) - address(0);
  if (step < 0 || step % kBatchAlignment != 0) return std::nullopt;
  for (std::size_t i = 2; i < addresses.size(); ++i)
    if (address(i) - address(i - 1) != step) return std::nullopt;
  return step / size_of(dtype).value;
}

// Where all matrices lie at equal distances: the addresses of the first, and the distances.
std::optional<ProductAddresses> strided(const Product& each,
                                        std::span<const ProductAddresses> addresses) {
  const auto a = stride_of(
      addresses, [](const ProductAddresses& at) { return at.a; }, each.in);
  const auto b = stride_of(
      addresses, [](const ProductAddresses& at) { return at.b; }, each.type_of_b());
  const auto d = stride_of(
      addresses, [](const ProductAddresses& at) { return static_cast<const void*>(at.d); },
      each.out);
  if (!a || !b || !d) return std::nullopt;
  ProductAddresses first = addresses[0];
  first.a_stride = *a;
  first.b_stride = *b;
  first.d_stride = *d;
  return first;
}

// `each` so many times.
Product batch_of(const Product& each, std::span<const ProductAddresses> addresses,
                 BatchPlaces places) {
  Product batch = each;
  batch.count = static_cast<std::int32_t>(addresses.size());
  batch.places = places;
  batch.has_one_a = std::all_of(addresses.begin(), addresses.end(),
                                [&](const auto& at) { return at.a == addresses[0].a; });
  batch.has_one_b = std::all_of(addresses.begin(), addresses.end(),
                                [&](const auto& at) { return at.b == addresses[0].b; });
  return batch;
}

class ProductBatch final : public CudaKernel {
 public:
  ProductBatch(const Product& each, std::span<const ProductAddresses> addresses,
               CudaContext& device)
      : device_(device), pointers_(addresses) {
    const std::optional<ProductAddresses> by_strides = strided(each, addresses);
    ProductAddresses at = by_strides ? *by_strides : pointers_.addresses();
    if (each.epilogue == ProductEpilogue::kBias) {
      biases_.emplace(each, addresses);
      at.bias = biases_->bias();
      at.bias_stride = biases_->stride();
    }
    const BatchPlaces places = by_strides ? BatchPlaces::kStrided : BatchPlaces::kPointers;
    call_.emplace(batch_of(each, addresses, places), at);
  }
  // The times of the batch and of as many calls like `alone`; nothing: it cannot run.
  std::optional<BatchTimes> choose(const ProductCall& alone) {
    const std::optional<BatchChoice> found = device_.products().of_batch(*call_, alone, device_);
    if (!found) return std::nullopt;
    choice_ = found->choice;
    return found->times;
  }

  void enqueue(cudaStream_t stream) override {
    if (biases_) biases_->enqueue(stream);
    SEXTANT_CUBLAS(call_->run(device_, choice_->algorithm, stream));
  }

 private:
  CudaContext& device_;
  const ProductPointers pointers_;
  std::optional<BatchBiases> biases_;
  std::optional<ProductCall> call_;
  std::optional<ProductChoice> choice_;
};

// What the first `count` take together, in times of one alone.
double cost_of(const Product& each, std::span<const ProductAddresses> first,
               const ProductCall& alone, CudaContext& device) {
  const auto times = ProductBatch(each, first, device).choose(alone);
  if (!times) return std::numeric_limits<double>::infinity();
  return static_cast<double>(first.size()) * times->together / times->apart;
}

// Of so many products as there are costs, without a batch of all: costs[i] is that of i + 1.
double least_of_fewer(const std::vector<double>& costs) {
  std::vector<double> least{0};
  for (std::size_t count = 1; count <= costs.size() + 1; ++count) {
    double& best = least.emplace_back(std::numeric_limits<double>::infinity());
    for (std::size_t batch = 1; batch <= std::min(count, costs.size()); ++batch)
      best = std::min(best, costs[batch - 1] + least[count - batch]);
  }
  return least.back();
}

}  // namespace

ProductPointers::ProductPointers(std::span<const ProductAddresses> addresses)
    : accumulates_(addresses[0].c != nullptr) {
  require(addresses.size() <= kMostInProductBatch, ErrorCode::kInternal,
          "a batch of {} products by pointers, at most {}", addresses.size(), kMostInProductBatch);
  std::vector<const void*> table(3 * kMostInProductBatch, nullptr);
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const void* const matrices[] = {addresses[i].a, addresses[i].b, addresses[i].d};
    for (std::size_t array = 0; array < 3; ++array)
      table[array * kMostInProductBatch + i] = matrices[array];
  }
  table_ = DeviceTable<const void*>(table);
}

// `d` is an array that cuBLASLt reads; the matrices that it names are written.
ProductAddresses ProductPointers::addresses() const {
  const void** const a = table_.rows();
  const void** const b = a + kMostInProductBatch;
  const void** const d = b + kMostInProductBatch;
  return {.a = a, .b = b, .c = accumulates_ ? d : nullptr, .d = d};
}

std::unique_ptr<CudaKernel> make_product_batch(const Product& each,
                                               std::span<const ProductAddresses> addresses,
                                               const ProductCall& alone, double more,
                                               CudaContext& device) {
  const bool accumulates = addresses[0].c != nullptr;
  if (!device.tunes() || (accumulates && size_of(each.out).value < 4) ||
      !std::all_of(addresses.begin(), addresses.end(), has_aligned_matrices))
    return nullptr;
  auto kernel = std::make_unique<ProductBatch>(each, addresses, device);
  const std::optional<BatchTimes> times = kernel->choose(alone);
  if (!times) return nullptr;
  const auto count = static_cast<double>(addresses.size());
  std::vector<double> costs{1 - more / times->apart};
  for (std::size_t fewer = 2; fewer < addresses.size(); ++fewer)
    costs.push_back(cost_of(each, addresses.first(fewer), alone, device));
  if (count * times->together >= 0.99 * least_of_fewer(costs) * times->apart) return nullptr;
  return kernel;
}

}  // namespace sextant
