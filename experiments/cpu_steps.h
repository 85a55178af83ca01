// What whole steps of CPU ranks take beyond their kernels. Ranks share cores and memory with each
// other's communications, wait for threads that are queued behind another on one core while the
// next core idles, and find their operands in caches that others have used: nothing that a kernel
// by itself shows.
#pragma once

#include "backends/cpu/cpu_bench.h"
#include "core/costs/cluster.h"
#include "core/graphs/physical_graph.h"

#include <string>
#include <vector>

namespace sextant {

// A step of all ranks.
struct WholeStep {
  std::string name;
  PhysicalGraph graph;
};

// Seconds that the step took at the speed of the bench's figures, over those that `cluster`
// predicts: the median of steps that last `seconds` together. What other processes took of the
// machine meanwhile is taken off. Of several steps the geometric mean; 1 of none.
double time_beside_kernels(const CpuBench& bench, const Cluster& cluster, DType dtype,
                           const std::vector<WholeStep>& steps, double seconds);

// All that lasts while a device computes, so many times as long.
void stretch(DeviceKind& device, double times, const std::string& source);

}  // namespace sextant
