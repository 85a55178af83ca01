// The best plan of a job, as a point of a sweep: `search --sweep` and the experiment `models`.
#pragma once

#include "experiments/jobs/job.h"
#include "experiments/sweeps/experiment.h"

#include <string_view>
#include <vector>

namespace sextant {

struct SearchLimits;  // search/search/search.h

// Values: strategy, step_s, samples_per_s, gap, mfu where the device has a rate for the type,
// memory_bytes (arena and libraries of the device that needs most), compiled_plans. Throws what a
// search throws, and Error(kInfeasible) where no strategy is a plan.
PointResult best_plan(const Job& job, const SearchLimits& limits);

// "model=llama3-8b;llama3-70b cluster=dgx-h100:nodes=1;dgx-h100:nodes=8 global_batch=64;256": a
// point per model, cluster and batch, in this order; a list that is left out is the one value of
// `names`. Throws Error(kUsage) for another key, with the nearest, an empty value, a batch that is
// no positive number, and more than 10,000 points.
std::vector<SweepPoint> plan_sweep_points(std::string_view text, const JobArguments& names);

}  // namespace sextant
