// The plan that a rule of thumb gives without looking at anything but memory: what a search has to
// beat.
#pragma once

#include "experiments/jobs/job.h"
#include "experiments/sweeps/row.h"

#include <cstdint>

namespace sextant {

// How many stages the pipeline has: as few as memory asks for, or as many as there are nodes, the
// model has blocks and the batch allows.
enum class RuleDepth : std::uint8_t { kAsMemoryAsks, kTheRest };

// tp=8, the pipeline by `depth`, data parallelism for what is left; micro-batches of one sample,
// zero=1, sp=on, and of recomputation the least that fits. Values: strategy, those of a simulated
// step, and mfu where the device has a rate for the type. Throws Error(kInfeasible) where no such
// plan fits.
PointResult rule_plan(const Job& job, RuleDepth depth);

}  // namespace sextant
