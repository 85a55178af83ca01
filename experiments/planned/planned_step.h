// One step of one plan, as a point of a sweep: compiled and simulated, or measured on CPU ranks.
#pragma once

#include "experiments/jobs/job.h"
#include "experiments/sweeps/row.h"

namespace sextant {

struct ExpandOptions;  // compiler/expand/expand.h

// A model with cluster, strategy and batch, as the verbs of the program take them.
using PlannedStep = JobArguments;

// The parameters of its point, and back. `identity` among them is a hash of the model's and the
// cluster's text: files may change under one name. Throws what loading them throws.
Fields to_fields(const PlannedStep& step);
PlannedStep planned_step_from(const Fields& parameters);

// Compiled and simulated in tape mode. Values: step_s, samples_per_s, arena_bytes and memory_bytes
// (arena with libraries) of the device that needs most, compute_s, exposed_communication_s,
// bubble_s, optimizer_s, host_s (means over ranks, adding up to step_s). Throws what loading and
// the compiler throw, and Error(kInfeasible) where a device has less memory than it needs.
PointResult simulate_step(const PlannedStep& step);
// The same with other options of the compiler; schedule, memory and proof are not taken from them.
PointResult simulate_step(const PlannedStep& step, const ExpandOptions& options);
// The same of what is loaded already.
PointResult simulate_step(const Job& job, const Strategy& strategy);
PointResult simulate_step(const Job& job, const Strategy& strategy, const ExpandOptions& options);

}  // namespace sextant
