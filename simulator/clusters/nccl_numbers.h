// What NCCL's algorithms reach over the links of GPU machines, as lists for
// NetworkLink::algorithms. Latencies and protocol ceilings are those of its tuning model where
// nothing was measured; the measurements that calibrate the rest are named in each number's source.
#pragma once

#include "core/costs/cluster.h"

#include <cstdint>
#include <vector>

namespace sextant {

enum class GpuGeneration : std::uint8_t { kVolta, kAmpere, kHopper, kBlackwell };

// A number is calibrated where its own generation was measured; one that another's was measured
// with is assumed, and says which. All of Blackwell's are Hopper's.

// Inside a node: NVLink, behind a switch from Ampere on.
std::vector<CollectiveAlgorithm> nccl_in_node(GpuGeneration generation);

// Between nodes, over the InfiniBand or RoCE ports of the GPUs.
std::vector<CollectiveAlgorithm> nccl_between_nodes(GpuGeneration generation);

}  // namespace sextant
