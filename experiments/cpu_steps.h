// What whole steps of CPU ranks take beyond their kernels. Ranks share cores and memory with each
// other's communications, wait for threads that are queued behind another on one core while the
// next core idles, and find their operands in caches that others have used: nothing that a kernel
// by itself shows.
#pragma once

#include "backends/cpu/cpu_bench.h"
#include "core/costs/cluster.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

// A step of all ranks.
struct WholeStep {
  std::string name;
  PhysicalGraph graph;
};

// One step that ran, or the mean of several.
struct StepRun {
  double wall_s = 0;
  double processor_s = 0;  // of all threads of the process
  double others = 0;       // share of the machine's processor time that other processes took
  double slowdown = 1;     // of the machine, beside the moment that the bench's figures are for
};

// One step of `count` behind `warm_up` others, one or more: wall time is the median from the end of
// one to the end of the next, processor time the mean. Of others and of the machine's speed nothing
// is known.
StepRun run_steps(const PhysicalGraph& graph, std::int64_t warm_up, std::int64_t count);

// Seconds of a step on `cores` of a quiet machine of the bench's speed. What others took is taken
// off, as far as the processor time of the step itself allows: they may have been on cores that the
// step had no use for.
double quiet_seconds(const StepRun& run, double cores);

struct BesideKernels {
  double times = 1;
  std::size_t steps = 0;  // that fit into this machine's memory, and were run
};

// Seconds that a step took over those that `cluster` predicts, the median of steps that last
// `seconds` together, at each of two moments; of all these the geometric mean. Nothing where there
// are none, or where the machine was so busy that the answer makes no sense (below a half, above
// four).
std::optional<BesideKernels> time_beside_kernels(const CpuBench& bench, const Cluster& cluster,
                                                 DType dtype, const std::vector<WholeStep>& steps,
                                                 double seconds);

// All that lasts while a device computes, so many times as long. `source` is added to theirs.
DeviceKind stretched(DeviceKind device, double times, const std::string& source);

}  // namespace sextant
