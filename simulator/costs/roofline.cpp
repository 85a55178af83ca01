// Compute time from peak rate and memory bandwidth, with the shape effects of matmuls. Peaks come
// from data sheets, efficiencies from the cluster file; nothing here is fitted.

#include "core/base/check.h"
#include "core/graphs/kernel_names.h"
#include "simulator/costs/modelled_time.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

namespace {

class Roofline : public CostModel {
 public:
  Roofline(const DeviceKind& device, DType compute_dtype)
      : flops_per_second_(peak_of(device, compute_dtype).flops_per_second.value *
                          device.matmul_efficiency.value),
        bytes_per_second_(device.memory_bandwidth.value * device.memory_efficiency.value),
        kernel_overhead_(device.kernel_overhead.value),
        tile_(device.matmul_tile.value),
        units_(device.matmul_units.value),
        launch_cost_(duration_from_seconds(device.launch_overhead.value)),
        fused_(device.fused) {}

  Duration duration(const Work& work) const override {
    const double bytes =
        static_cast<double>(work.read.value) + static_cast<double>(work.written.value);
    if (work.kernel == kNoKernel) return Duration();
    const Shape shape = shape_of(work.kernel);
    const double compute = work.flops / flops_per_second_ / shape.efficiency;
    return modelled_time(kernel_overhead_ + std::max(compute, bytes / bytes_per_second_) +
                             shape.partial_bytes / bytes_per_second_,
                         work.kernel);
  }

  Duration launch_cost() const override { return launch_cost_; }
  bool fuses(std::string_view fused_kind) const override {
    return std::find(fused_.begin(), fused_.end(), fused_kind) != fused_.end();
  }

 private:
  struct Shape {
    double efficiency = 1;     // share of the waves' work that is asked for: 1 for large matmuls
    double partial_bytes = 0;  // written and read again where a sum is split
  };

  // A long sum over fewer tiles than there are units is split over those that would idle, each part
  // no shorter than `kLeastPart`: 256 x 10^6 x 512 takes 0.41 ms on an H200, its 8 tiles alone
  // would take 6.3. Shorter sums stay whole: what libraries do there is in the efficiencies.
  static constexpr double kLeastPart = 16384;

  Shape shape_of(std::string_view kernel) const {
    const std::optional<MatmulExtents> found = matmul_extents(kernel);
    if (!found) return {};
    const MatmulExtents& extents = *found;
    const double asked = extents.m * extents.n * extents.k;
    if (asked == 0 || tile_ == 0 || units_ == 0) return {};
    const double tiles = std::ceil(extents.m / tile_) * std::ceil(extents.n / tile_);
    const double parts =
        std::max(1.0, std::min(std::floor(units_ / tiles), std::floor(extents.k / kLeastPart)));
    const double waves = std::ceil(tiles * parts / units_);
    const double work = waves * units_ * tile_ * tile_ * (extents.k / parts + tile_);
    return {asked / work, parts > 1 ? 2 * parts * extents.m * extents.n * 4 : 0};
  }

  double flops_per_second_, bytes_per_second_, kernel_overhead_, tile_, units_;
  Duration launch_cost_;
  std::vector<std::string> fused_;
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
