// What a cluster file says about a GPU, measured: copies, launches, a grid of products, the other
// kernels by size, and the launches of given training steps. Kernels of the table are timed while
// the device is as busy as in a step: at the clock that its power limit leaves.
#pragma once

#include "backends/cuda/machine/cuda_bench.h"
#include "core/costs/cluster.h"
#include "experiments/kernel_measurement.h"

#include <functional>
#include <string>
#include <vector>

namespace sextant {

struct ClusterBenchOptions {
  DType dtype = DType::kBF16;
  std::string date;                             // of today, by the caller
  std::function<void(const std::string&)> say;  // progress
};

// `base` with the device's name, memory, bandwidth, overheads and efficiency of products replaced
// by measured ones and a table of kernels; peaks and links stay. Fused kinds are those that the
// device has a kernel for.
Cluster measure_cluster(CudaBench& bench, const Cluster& base,
                        const std::vector<BenchedStep>& steps, const ClusterBenchOptions& options);

}  // namespace sextant
