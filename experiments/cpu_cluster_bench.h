// What a cluster file says about the ranks of this machine's CPU, measured: kernels while all ranks
// are busy, meetings of all of them, and what a launch takes beside its kernel.
#pragma once

#include "backends/cpu/cpu_bench.h"
#include "core/costs/cluster.h"
#include "experiments/cpu_steps.h"
#include "experiments/kernel_measurement.h"

#include <string>
#include <vector>

namespace sextant {

struct CpuClusterBenchOptions {
  DType dtype = DType::kF32;
  std::string date;               // of today, by the caller
  double seconds_per_step = 0.4;  // of each whole step, at each of two moments
  KernelMeasurement::Say say;     // progress
};

// Copies of `cluster` with measured numbers: peaks, bandwidth, overheads, a table of kernels, and
// the link between ranks. The number of ranks and their memory stay. `launches` is a step of
// kernels that take next to no time on as many ranks as the cluster has; `steps` are those whose
// launches are measured, beside products by size. `whole` are steps of all ranks, of such launches:
// what computes takes as many times longer as they take longer than predicted.
Cluster measure_cpu_cluster(CpuBench& bench, const Cluster& cluster, const PhysicalGraph& launches,
                            const std::vector<BenchedStep>& steps,
                            const std::vector<WholeStep>& whole,
                            const CpuClusterBenchOptions& options);

// "AMD EPYC 7B13", as Linux says it; "CPU" where it does not.
std::string processor_name();

}  // namespace sextant
