// Pipelines in the order of the rule, and of ever more recomputation the first that fits.
#include "experiments/planned/rule_plan.h"

#include "core/base/check.h"
#include "experiments/planned/planned_step.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

namespace {

constexpr std::int64_t kTensorParallel = 8;

// Nothing where it does not fit, or the model cannot be split like this.
std::optional<PointResult> step_that_fits(const Job& job, const std::string& strategy) {
  try {
    return simulate_step(job, parse_strategy(strategy));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInfeasible && error.code() != ErrorCode::kUsage) throw;
    return std::nullopt;
  }
}

// Numbers of stages, the rule's first choice first.
std::vector<std::int64_t> depths_of(std::int64_t rest, RuleDepth depth) {
  std::vector<std::int64_t> depths;
  for (std::int64_t pp = 1; pp <= rest; pp *= 2) depths.push_back(pp);
  if (depth == RuleDepth::kTheRest) std::reverse(depths.begin(), depths.end());
  return depths;
}

}  // namespace

PointResult rule_plan(const Job& job, RuleDepth depth) {
  const std::int64_t rest = job.cluster.num_devices() / kTensorParallel;
  for (const std::int64_t pp : depths_of(rest, depth))
    for (const char* recompute : {"none", "selective", "full"}) {
      const std::string strategy =
          fmt::format("dp={} tp={} pp={} micro_batch=1 zero=1 sp=on recompute={}", rest / pp,
                      kTensorParallel, pp, recompute);
      std::optional<PointResult> result = step_that_fits(job, strategy);
      if (!result) continue;
      const double seconds = *number_of(result->values, "step_s");
      result->values.insert(result->values.begin(), {"strategy", strategy});
      if (const auto share = mfu(job, seconds, job.cluster.num_devices()))
        result->values.emplace_back("mfu", *share);
      return *result;
    }
  fail(ErrorCode::kInfeasible, "no pipeline of the rule fits");
}

}  // namespace sextant
