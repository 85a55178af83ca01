// Times that no device of a cluster stays below: what bounds ask instead of a cost model.
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Which device kinds a range of ranks has, one bit each.
using DeviceKinds = std::uint64_t;

class LeastCosts {
 public:
  // `real`: what plans are timed with; it decides what is fused.
  LeastCosts(const Cluster& cluster, DType compute_dtype, const CostModel& real);

  DeviceKinds kinds_of(std::int64_t first_rank, std::int64_t ranks) const;
  // No act with at least this work takes less on any of these devices. The kernel is without
  // extents ("matmul", not "matmul:64x64x64"): the roofline then has the efficiency of a large one,
  // and a measured table is as far below it as the fastest kernel of the family in it, wherever its
  // neighbours are.
  Duration duration(DeviceKinds kinds, const Work& work) const;
  bool fuses(std::string_view kind) const { return real_.fuses(kind); }

 private:
  struct Device {
    std::unique_ptr<CostModel> roofline;
    // Of measured kernels to the roofline, by family: the least, at most 1.
    std::map<std::string, double, std::less<>> least_ratio;
  };

  static Device device_of(const Cluster& cluster, const DeviceKind& kind, DType dtype);
  static Duration duration_on(const Device& device, const Work& work);

  const Cluster& cluster_;
  const CostModel& real_;
  std::vector<Device> devices_;  // the base kind, then other_devices
};

}  // namespace sextant
