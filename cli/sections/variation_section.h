// `simulate --jitter --samples`: how much steps differ; `--failures`: what failures leave of long
// runs.
#pragma once

#include "cli/console.h"
#include "cli/throughput.h"
#include "simulator/modes/simulate.h"
#include "simulator/reports/goodput.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <vector>

namespace sextant {

// Steps that are simulated before the first sample: they fill pipelines and windows.
inline constexpr std::int64_t kWarmUpSteps = 3;

struct StepSamples {
  std::vector<double> step_s;  // ascending
  double mean_s = 0;
};

// All but the first kWarmUpSteps.
StepSamples step_samples(const Simulation& simulation);
// As quantiles for people, and as part of the verb's document (seconds).
void say(const StepSamples& samples, const Console& console);
nlohmann::ordered_json samples_json(const StepSamples& samples);

struct LongRun {
  Reliability reliability;
  Goodput expected;
  std::vector<double> day_s;  // wall time of a day's work, simulated, ascending
};

// As many simulated days as are worth a fixed number of checkpoints, at least a few; the same for
// the same seed.
LongRun long_run(const Reliability& reliability, std::uint64_t seed);
// Shares of the wall time with the rate that is left of `of_step`, and as part of the document.
void say(const LongRun& run, const Throughput& of_step, const Console& console);
nlohmann::ordered_json long_run_json(const LongRun& run);

}  // namespace sextant
