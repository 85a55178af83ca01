// As the device kinds of the cluster say.

#include "simulator/costs/overlap.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {

std::vector<OverlapShares> overlap_shares(const Cluster& cluster) {
  std::vector<OverlapShares> shares;
  shares.reserve(static_cast<std::size_t>(cluster.num_devices()));
  for (std::int64_t rank = 0; rank < cluster.num_devices(); ++rank) {
    const DeviceKind& device = cluster.device_of(Rank(static_cast<std::size_t>(rank)));
    for (const Sourced* share :
         {&device.compute_beside_communication, &device.communication_beside_compute})
      require(share->value > 0 && share->value <= 1, ErrorCode::kBadInput,
              "device '{}': a rate of {} beside others: above 0 and at most 1", device.name,
              share->value);
    shares.push_back(
        {device.compute_beside_communication.value, device.communication_beside_compute.value});
  }
  const bool slows = std::any_of(shares.begin(), shares.end(),
                                 [](const OverlapShares& one) { return one != OverlapShares(); });
  return slows ? shares : std::vector<OverlapShares>{};
}

}  // namespace sextant
