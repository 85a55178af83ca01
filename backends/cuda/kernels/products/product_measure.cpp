// Runs the candidates in turn, so that a change of clocks meets all of them, and takes medians; at
// the limit of power it waits for the clock of each.
#include "backends/cuda/kernels/products/product_measure.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/kernels/products/product_batch.h"
#include "backends/cuda/kernels/shared/noise.h"
#include "backends/cuda/kernels/shared/stopwatch.h"
#include "core/base/quantile.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// Device memory that may be refused.
class Scratch {
 public:
  explicit Scratch(std::int64_t bytes) : bytes_(bytes) {
    if (cudaMalloc(&data_, static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1))) ==
        cudaSuccess)
      return;
    cudaGetLastError();  // an error that is answered here and nowhere else
    data_ = nullptr;
  }
  ~Scratch() { cudaFree(data_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  const std::int64_t bytes_;
  void* data_ = nullptr;
};

class Measurement {
 public:
  Measurement(const ProductCall& call, CudaContext& device)
      : product_(call.product),
        device_(device),
        a_(bytes(product_.m * product_.k, product_.in, product_.has_one_a)),
        b_(bytes(product_.k * product_.n, product_.type_of_b(), product_.has_one_b)),
        c_(reads_c(call) ? bytes(product_.m * product_.n, product_.out) : 0),
        d_(bytes(product_.m * product_.n, product_.out)),
        bias_(bytes(std::max(product_.m, product_.n), product_.out)),
        aux_(call.addresses.aux != nullptr ? bytes(product_.m * product_.n, product_.out) : 0),
        scales_(call.addresses.a_scale != nullptr ? 2 * sizeof(float) : 0) {
    if (has_memory()) call_.emplace(product_, on_own_memory(call));
  }

  bool has_memory() const {
    for (const Scratch* scratch : {&a_, &b_, &c_, &d_, &bias_, &aux_, &scales_})
      if (scratch->data() == nullptr) return false;
    return true;
  }

  BatchTimes batch_times(const cublasLtMatmulAlgo_t& of_batch, const ProductCall& each,
                         const cublasLtMatmulAlgo_t& of_each) {
    fill();
    std::vector<std::unique_ptr<ProductCall>> singles;
    for (const ProductAddresses& at : one_by_one(each.addresses.bias != nullptr))
      singles.push_back(std::make_unique<ProductCall>(each.product, at));
    const auto run_apart = [&] {
      for (const auto& single : singles)
        SEXTANT_CUBLAS(single->run(device_, of_each, watch_.stream()));
    };
    run_apart();
    seconds(of_batch, 1);
    std::vector<double> together, apart;
    for (int round = 0; round < 15; ++round) {
      together.push_back(seconds(of_batch, 3));
      apart.push_back(watch_.seconds(3, run_apart));
    }
    return {median(together), median(apart)};
  }

  std::optional<MeasuredProduct> fastest(std::span<const cublasLtMatmulAlgo_t> candidates,
                                         MeasuringEffort effort) {
    fill();
    for (std::size_t i = 0; i < candidates.size(); ++i)
      if (runs(candidates[i])) contenders_.push_back({i, {}});
    if (contenders_.empty()) return std::nullopt;
    const double once = seconds(candidates[contenders_.front().candidate], 1);
    // Launches of 50 us and less are measured in a row.
    const int times = static_cast<int>(std::clamp(2e-4 / std::max(once, 1e-7), 1.0, 20.0));
    measure(candidates, 3, times);
    contenders_.resize(std::min<std::size_t>(contenders_.size(), 5));
    measure(candidates, 7, times);
    const Contender& best =
        contenders_[effort == MeasuringEffort::kUnderLoad ? least_under_load(candidates) : 0];
    return MeasuredProduct{best.candidate, median(best.seconds)};
  }

 private:
  struct Contender {
    std::size_t candidate = 0;
    std::vector<double> seconds;
  };

  static bool reads_c(const ProductCall& call) {
    return call.addresses.c != nullptr && call.addresses.c != call.addresses.d;
  }
  // Where they are not packed every matrix begins at a multiple of 256.
  std::int64_t bytes_of_one(std::int64_t elements, DType dtype) const {
    constexpr std::int64_t kAlignment = 256;
    const std::int64_t exact = elements * size_of(dtype).value;
    if (product_.places == BatchPlaces::kPacked) return exact;
    return (exact + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::int64_t bytes(std::int64_t elements, DType dtype, bool is_one = false) const {
    return bytes_of_one(elements, dtype) * (is_one ? 1 : product_.count);
  }

  std::int64_t stride_of(const Scratch& scratch, DType dtype) const {
    return scratch.bytes() / product_.count / size_of(dtype).value;
  }

  // The products of a batch that is not packed.
  std::vector<ProductAddresses> one_by_one(bool has_bias) const {
    const auto at = [&](const Scratch& scratch, bool is_one, std::int64_t number) {
      const std::int64_t one = is_one ? 0 : scratch.bytes() / product_.count;
      return static_cast<std::byte*>(scratch.data()) + number * one;
    };
    std::vector<ProductAddresses> all;
    for (int i = 0; i < product_.count; ++i) {
      ProductAddresses& one = all.emplace_back();
      one.a = at(a_, product_.has_one_a, i);
      one.b = at(b_, product_.has_one_b, i);
      one.d = at(d_, false, i);
      if (accumulates_) one.c = one.d;
      if (has_bias) one.bias = at(bias_, false, i);
    }
    return all;
  }

  ProductAddresses on_own_memory(const ProductCall& call) {
    ProductAddresses own{.a = a_.data(), .b = b_.data(), .d = d_.data()};
    if (call.addresses.c != nullptr) own.c = reads_c(call) ? c_.data() : d_.data();
    accumulates_ = product_.places != BatchPlaces::kPacked && call.addresses.c != nullptr;
    if (product_.places == BatchPlaces::kPointers)
      own = pointers_.emplace(one_by_one(false)).addresses();
    if (product_.places == BatchPlaces::kStrided) {
      own.a_stride = product_.has_one_a ? 0 : stride_of(a_, product_.in);
      own.b_stride = product_.has_one_b ? 0 : stride_of(b_, product_.type_of_b());
      own.d_stride = stride_of(d_, product_.out);
    }
    if (product_.places != BatchPlaces::kPacked && call.addresses.bias != nullptr)
      own.bias_stride = stride_of(bias_, product_.out);
    if (call.addresses.bias != nullptr) own.bias = bias_.data();
    if (call.addresses.aux != nullptr) own.aux = aux_.data();
    if (call.addresses.a_scale != nullptr) {
      own.a_scale = static_cast<const float*>(scales_.data());
      own.b_scale = own.a_scale + 1;
    }
    return own;
  }

  // Equal bits draw less power than those of a model, and the clock is higher then.
  void fill() {
    const auto noise = [&](const Scratch& scratch, DType dtype) {
      SEXTANT_CUDA(enqueue_noise({scratch.data(), dtype, scratch.bytes() / size_of(dtype).value},
                                 watch_.stream()));
    };
    noise(a_, product_.in);
    noise(b_, product_.type_of_b());
    if (call_->addresses.a_scale != nullptr) noise(scales_, DType::kF32);
    noise(d_, product_.out);
    if (call_->addresses.c == c_.data()) noise(c_, product_.out);
    if (call_->addresses.aux != nullptr) noise(aux_, product_.out);
    noise(bias_, product_.out);
  }

  bool runs(const cublasLtMatmulAlgo_t& algorithm) {
    const bool started = call_->run(device_, algorithm, watch_.stream()) == CUBLAS_STATUS_SUCCESS;
    SEXTANT_CUDA(cudaStreamSynchronize(watch_.stream()));
    return started;
  }

  double seconds(const cublasLtMatmulAlgo_t& algorithm, int times) {
    return watch_.seconds(times,
                          [&] { SEXTANT_CUBLAS(call_->run(device_, algorithm, watch_.stream())); });
  }

  void measure(std::span<const cublasLtMatmulAlgo_t> candidates, int rounds, int times) {
    for (int round = 0; round < rounds; ++round)
      for (Contender& contender : contenders_)
        contender.seconds.push_back(seconds(candidates[contender.candidate], times));
    std::stable_sort(contenders_.begin(), contenders_.end(),
                     [](const Contender& a, const Contender& b) {
                       return median(a.seconds) < median(b.seconds);
                     });
  }

  // In contenders_, which are sorted. A product of less than kWorthIt takes a small share of a
  // step.
  std::size_t least_under_load(std::span<const cublasLtMatmulAlgo_t> candidates) {
    constexpr double kWorthIt = 3e-5, kNearly = 1.04, kLoad = 0.06;  // s, 1, s
    constexpr std::size_t kMost = 3;
    constexpr int kRounds = 2;
    const double best = median(contenders_.front().seconds);
    if (best < kWorthIt) return 0;
    std::vector<double> sums;
    for (const Contender& contender : contenders_)
      if (sums.size() < kMost && median(contender.seconds) <= kNearly * best) sums.push_back(0);
    if (sums.size() == 1) return 0;
    const int times = std::max(1, static_cast<int>(kLoad / best));
    for (int round = 0; round < kRounds; ++round)
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const cublasLtMatmulAlgo_t& algorithm = candidates[contenders_[i].candidate];
        seconds(algorithm, times);  // the clock goes to where this one takes it
        sums[i] += seconds(algorithm, times);
      }
    return static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  }

  const Product product_;
  CudaContext& device_;
  const Scratch a_, b_, c_, d_, bias_, aux_, scales_;
  bool accumulates_ = false;
  std::optional<ProductPointers> pointers_;
  std::optional<ProductCall> call_;
  Stopwatch watch_;
  std::vector<Contender> contenders_;
};

}  // namespace

std::optional<MeasuredProduct> fastest_product(const ProductCall& call,
                                               std::span<const cublasLtMatmulAlgo_t> candidates,
                                               MeasuringEffort effort, CudaContext& device) {
  // Work that is under way would take its share of the card.
  SEXTANT_CUDA(cudaDeviceSynchronize());
  Measurement measurement(call, device);
  if (!measurement.has_memory()) return std::nullopt;
  return measurement.fastest(candidates, effort);
}

std::optional<BatchTimes> times_of_batch(const ProductCall& batch,
                                         const cublasLtMatmulAlgo_t& of_batch,
                                         const ProductCall& each,
                                         const cublasLtMatmulAlgo_t& of_each, CudaContext& device) {
  SEXTANT_CUDA(cudaDeviceSynchronize());
  Measurement measurement(batch, device);
  if (!measurement.has_memory()) return std::nullopt;
  return measurement.batch_times(of_batch, each, of_each);
}

}  // namespace sextant
