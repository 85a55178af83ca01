// Several jobs on one fabric: each a graph on its own devices, all over the same links.
#pragma once

#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"
#include "simulator/modes/simulate.h"
#include "simulator/steps/timeline.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

struct Job {
  const PhysicalGraph* graph = nullptr;
  std::int32_t first_device = 0;  // that its rank 0 has; jobs may lie on the same devices
};

// A timeline per job, in timed mode; each begins at time 0 and repeats its step. Every rank is
// simulated: jobs break each other's symmetry. `overlap` is by device. Throws Error(kUsage) for
// another mode, for traffic, and without jobs.
std::vector<Timeline> simulate_jobs(std::span<const Job> jobs, const CostModel& cost,
                                    const NetworkModel& network, const SimulateOptions& options);

}  // namespace sextant
