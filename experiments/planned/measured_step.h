// Steps of one plan on the CPU ranks of this process, as a point of a sweep.
#pragma once

#include "experiments/planned/planned_step.h"
#include "experiments/sweeps/row.h"

#include <cstdint>

namespace sextant {

struct MeasuredSteps {
  std::int64_t warm_up = 2, counted = 7;
};

// Compiled for its cluster and trained on synthetic data by threads of this process, whatever the
// cluster's devices are called. Values: step_s (median of the counted steps), samples_per_s,
// moved_bytes (what all ranks send each other in one step), arena_bytes of the largest arena;
// spread over the counted steps. Throws what loading, the compiler and the runtime throw.
PointResult measure_step(const PlannedStep& step, std::uint64_t seed,
                         const MeasuredSteps& steps = {});

// What the point's way says: measured on CPU ranks, else simulated.
PointResult evaluate_planned_point(const SweepPoint& point);

}  // namespace sextant
