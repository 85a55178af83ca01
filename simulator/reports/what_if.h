// "What if this link were twice as fast?": one number of a cluster changed, by text.
#pragma once

#include "core/costs/cluster.h"

#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// A change of one number: by a factor, or to a quantity with its unit.
struct WhatIf {
  std::string key;       // "link.ib.bandwidth"
  double factor = 1;     // of what it is
  std::string quantity;  // "50GB/s"; empty: the factor counts
  bool operator==(const WhatIf&) const = default;
};

// "gpu.flops=1.5x", "host.launch=-10%", "link.ib.bandwidth=50GB/s". Throws Error(kUsage) for text
// that says no change, or a factor that is not above zero.
WhatIf parse_what_if(std::string_view text);
std::string to_text(const WhatIf& change);

// The keys of a cluster:
//   gpu.flops              peak rates of all dtypes, and the matmuls that were measured
//   gpu.flops.DTYPE        of one dtype
//   gpu.memory_bandwidth   and what else was measured
//   gpu.memory, gpu.matmul_efficiency, gpu.memory_efficiency, gpu.kernel_overhead
//   host.launch            time of one launch
//   link.NAME.bandwidth, link.NAME.latency, link.NAME.efficiency
// NAME is a link's name, the part of it before the first '-', or intra_node, inter_node, outer1,
// ... `device` may stand for `gpu`. Changes of a device change the other devices of a cluster too.
std::vector<std::string> what_if_keys(const Cluster& cluster);

// Throws Error(kUsage) for a key that the cluster does not have, with the nearest, and for a number
// that the cluster cannot have (simulator/cluster_files/cluster_file.h, validate). The changed
// numbers are assumed, and say what they were.
Cluster changed(const Cluster& cluster, const WhatIf& change);

// "link.ib.bandwidth=0.25x..4x" (nine values, one factor from each to the next),
// "gpu.flops=1x..2x:5", "link.ib.latency=1us,2us,5us". At most 1,000 values.
std::vector<WhatIf> parse_sweep(std::string_view text);

}  // namespace sextant
