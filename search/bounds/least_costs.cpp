// The roofline of each device kind, and the best rate that was measured on it.
#include "search/bounds/least_costs.h"

#include "core/graphs/kernel_names.h"
#include "simulator/costs/models.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace sextant {
namespace {

constexpr std::size_t kLastBit = 63;  // kinds beyond it share the last bit

}  // namespace

LeastCosts::LeastCosts(const Cluster& cluster, DType compute_dtype, const CostModel& real)
    : cluster_(cluster), real_(real) {
  devices_.push_back(device_of(cluster, cluster.device, compute_dtype));
  for (const OtherDevices& other : cluster.other_devices)
    devices_.push_back(device_of(cluster, other.device, compute_dtype));
}

LeastCosts::Device LeastCosts::device_of(const Cluster& cluster, const DeviceKind& kind,
                                         DType dtype) {
  Cluster alike = cluster;
  alike.device = kind;
  alike.other_devices.clear();
  Device device;
  device.roofline = make_roofline(alike, dtype);
  if (!kind.measured || kind.measured->dtype != dtype) return device;
  for (const MeasuredKernel& kernel : kind.measured->kernels) {
    const Duration modelled = device.roofline->duration(
        {.flops = kernel.flops, .read = kernel.bytes, .written = {}, .kernel = kernel.kernel});
    if (modelled <= Duration()) continue;
    double& least = device.least_ratio.try_emplace(std::string(kernel_family(kernel.kernel)), 1.0)
                        .first->second;
    least = std::min(least, kernel.seconds / to_seconds(modelled));
  }
  return device;
}

DeviceKinds LeastCosts::kinds_of(std::int64_t first_rank, std::int64_t ranks) const {
  if (devices_.size() == 1) return 1;
  DeviceKinds kinds = 0;
  for (std::int64_t rank = first_rank; rank < first_rank + ranks; ++rank) {
    const DeviceKind* const device = &cluster_.device_of(Rank(static_cast<std::int32_t>(rank)));
    std::size_t kind = 0;
    for (std::size_t i = 0; i < cluster_.other_devices.size(); ++i)
      if (device == &cluster_.other_devices[i].device) kind = i + 1;
    kinds |= DeviceKinds{1} << std::min(kind, kLastBit);
  }
  return kinds;
}

Duration LeastCosts::duration_on(const Device& device, const Work& work) {
  const Duration modelled = device.roofline->duration(work);
  const auto least = device.least_ratio.find(kernel_family(work.kernel));
  if (least == device.least_ratio.end()) return modelled;
  // Rounded down: a time is rounded once, to the nearest picosecond.
  return Duration(
      static_cast<std::int64_t>(static_cast<double>(modelled.value) * least->second * (1 - 1e-9)));
}

Duration LeastCosts::duration(DeviceKinds kinds, const Work& work) const {
  std::optional<Duration> least;
  for (std::size_t kind = 0; kind < devices_.size(); ++kind) {
    if ((kinds >> std::min(kind, kLastBit) & 1) == 0) continue;
    const Duration own = duration_on(devices_[kind], work);
    least = least ? std::min(*least, own) : own;
  }
  return least.value_or(Duration());
}

}  // namespace sextant
