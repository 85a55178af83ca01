// Compute time from peak rate and memory bandwidth, with the shape effects of products and
// attention. Peaks come from data sheets, efficiencies from the cluster file; nothing here is
// fitted to a row.

#include "core/base/check.h"
#include "core/base/dtype.h"
#include "core/graphs/kernel_names.h"
#include "simulator/costs/modelled_time.h"
#include "simulator/costs/models.h"
#include "simulator/costs/product_work.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

namespace {

// Of one family of kernels, nothing left open.
struct FamilyRate {
  double flops_per_second = 0, bytes_per_second = 0, overhead = 0, pair_time = 0, lost_extent = 0;
  bool has_pairs = false;
};

class Roofline : public CostModel {
 public:
  Roofline(const DeviceKind& device, DType compute_dtype)
      : device_name_(device.name),
        peak_(peak_of(device, compute_dtype).flops_per_second.value),
        scaled_peak_(peak_or_none(device, DType::kE4M3)),
        element_bytes_(static_cast<double>(size_of(compute_dtype).value)),
        tile_(device.matmul_tile.value),
        units_(device.matmul_units.value),
        launch_cost_(duration_from_seconds(device.launch_overhead.value)),
        fused_(device.fused) {
    usual_ = {.flops_per_second = peak_ * device.matmul_efficiency.value,
              .bytes_per_second = device.memory_bandwidth.value * device.memory_efficiency.value,
              .overhead = device.kernel_overhead.value};
    for (const bool is_of_type : {false, true})
      for (const KernelRate& rate : device.rates)
        if (rate.dtype.has_value() == is_of_type &&
            rate.dtype.value_or(compute_dtype) == compute_dtype)
          rates_[rate.kernel] = rate_of(rate, device);
    if (rates_.count(kScaledProducts) == 0)
      rates_[std::string(kScaledProducts)] =
          rate_of({.kernel = std::string(kScaledProducts)}, device);
  }

  Duration duration(const Work& work) const override {
    if (work.kernel == kNoKernel) return Duration();
    return modelled_time(seconds_of(work), work.kernel);
  }

  Duration launch_cost() const override { return launch_cost_; }
  bool fuses(std::string_view fused_kind) const override {
    return std::find(fused_.begin(), fused_.end(), fused_kind) != fused_.end();
  }

 private:
  static double peak_or_none(const DeviceKind& device, DType dtype) {
    const auto found = std::find_if(device.peaks.begin(), device.peaks.end(),
                                    [&](const PeakRate& peak) { return peak.dtype == dtype; });
    return found == device.peaks.end() ? 0 : found->flops_per_second.value;
  }

  FamilyRate rate_of(const KernelRate& rate, const DeviceKind& device) const {
    FamilyRate made = usual_;
    const double peak = rate.kernel == kScaledProducts ? scaled_peak_ : peak_;
    if (rate.kernel == kScaledProducts)
      made.flops_per_second = peak * device.matmul_efficiency.value;
    if (rate.flops_efficiency.value > 0) made.flops_per_second = peak * rate.flops_efficiency.value;
    if (rate.bytes_efficiency.value > 0)
      made.bytes_per_second = device.memory_bandwidth.value * rate.bytes_efficiency.value;
    if (rate.overhead.value > 0) made.overhead = rate.overhead.value;
    made.pair_time = rate.pair_time.value;
    made.lost_extent = rate.lost_extent.value;
    made.has_pairs = made.pair_time > 0;
    return made;
  }

  const FamilyRate& rate_for(std::string_view family) const {
    if (family == kScaledProducts) require_scaled_products();
    const auto found = rates_.find(family);
    return found == rates_.end() ? usual_ : found->second;
  }

  void require_scaled_products() const {
    require(scaled_peak_ > 0, ErrorCode::kInfeasible,
            "device '{}' has no products of 8 bits: no peak rate for e4m3", device_name_);
  }

  double seconds_of(const Work& work) const {
    const double bytes =
        static_cast<double>(work.read.value) + static_cast<double>(work.written.value);
    const FamilyRate& rate = rate_for(kernel_family(work.kernel));
    if (const auto product = matmul_extents(work.kernel))
      return product_seconds(*product, work, bytes, rate);
    const double rows = lost_share(work.kernel, rate);
    double compute = work.flops / rate.flops_per_second;
    const auto attention = attention_extents(work.kernel);
    if (attention && rate.has_pairs) compute = attention_seconds(*attention, work.flops, rate);
    return rate.overhead + std::max(compute, (1 + rows) * bytes / rate.bytes_per_second);
  }

  // What rows of a norm cost beyond their elements; none where a plan may still split them.
  static double lost_share(std::string_view kernel, const FamilyRate& rate) {
    const auto extent = row_extent(kernel);
    return extent && *extent > 0 ? rate.lost_extent / *extent : 0;
  }

  // What an epilogue reads and writes beside the operands comes when the product is over.
  double product_seconds(const MatmulExtents& extents, const Work& work, double bytes,
                         const FamilyRate& rate) const {
    const double operand_bytes = kernel_family(work.kernel) == kScaledProducts ? 1 : element_bytes_;
    const double plain =
        std::min(bytes, operand_bytes * (extents.m * extents.k + extents.k * extents.n) +
                            element_bytes_ * extents.m * extents.n);
    double compute = work.flops / rate.flops_per_second, partial_bytes = 0;
    const auto loose = rates_.find(kLooseProducts);
    if (loose != rates_.end() && has_loose_rows(extents, operand_bytes)) {
      compute = std::max(compute, work.flops / loose->second.flops_per_second);
    } else {
      const ProductWork shaped = product_work(extents, tile_, units_, rate.lost_extent, compute,
                                              1 / rate.bytes_per_second);
      compute *= shaped.padded;
      partial_bytes = shaped.partial_bytes;
    }
    return rate.overhead + std::max(compute, plain / rate.bytes_per_second) +
           (bytes - plain + partial_bytes) / rate.bytes_per_second;
  }

  // Tensor cores take heads in multiples of 64 elements; what exponentials take is not hidden
  // behind the products.
  double attention_seconds(const AttentionExtents& extents, double flops,
                           const FamilyRate& rate) const {
    constexpr double kHeadStep = 64;
    const bool is_bound = extents.keys == 0;  // of plans that may still split the keys
    const double pairs = flops / (2 * extents.products() * extents.head_size);
    const double padded =
        is_bound ? 1 : std::ceil(extents.head_size / kHeadStep) * kHeadStep / extents.head_size;
    // As many keys beside those that are seen, of which a causal row has half as many.
    const double seen = extents.keys * (extents.sees_all ? 2 : 1);
    const double lost = is_bound ? 0 : rate.lost_extent / seen;
    return (1 + lost) * (flops * padded / rate.flops_per_second + pairs * rate.pair_time);
  }

  std::string device_name_;
  double peak_, scaled_peak_;  // the second one 0 where there are no products of 8 bits
  double element_bytes_, tile_, units_;
  Duration launch_cost_;
  std::vector<std::string> fused_;
  FamilyRate usual_;
  std::map<std::string, FamilyRate, std::less<>> rates_;
};

}  // namespace

const PeakRate& peak_of(const DeviceKind& device, DType dtype) {
  const auto found = std::find_if(device.peaks.begin(), device.peaks.end(),
                                  [&](const PeakRate& peak) { return peak.dtype == dtype; });
  if (found != device.peaks.end()) return *found;
  std::string known;
  for (const PeakRate& peak : device.peaks)
    known += (known.empty() ? "" : ", ") + std::string(to_string(peak.dtype));
  fail(ErrorCode::kUsage, "device '{}' has no peak rate for {}; it has {}", device.name,
       to_string(dtype), known);
}

std::unique_ptr<CostModel> make_roofline(const Cluster& cluster, DType compute_dtype) {
  return std::make_unique<Roofline>(cluster.device, compute_dtype);
}

}  // namespace sextant
