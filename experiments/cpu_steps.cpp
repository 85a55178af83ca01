// Steps run on the engine that trains, with losses that nobody reads.
#include "experiments/cpu_steps.h"

#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/machine_load.h"
#include "backends/cpu/yardstick.h"
#include "core/base/error.h"
#include "core/base/quantile.h"
#include "io/training_host.h"
#include "simulator/costs/models.h"
#include "simulator/modes/simulate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace sextant {
namespace {

constexpr std::int64_t kWarmUp = 2, kFewest = 4, kMost = 200;
// A machine's speed changes from second to second, so each step is run at two moments.
constexpr int kPasses = 2;
constexpr double kLeastTimes = 0.5, kMostTimes = 4;
// Of looks at the machine's speed: some ten while a step is measured.
constexpr std::chrono::milliseconds kPeriod{60};

StepRun watched_steps(const PhysicalGraph& graph, std::int64_t count, double yardstick_s) {
  const LoadWatch load;
  const SpeedWatch speed(kPeriod);
  StepRun run = run_steps(graph, kWarmUp, count);
  run.slowdown = speed.mean_seconds() / yardstick_s;
  if (const auto busy = load.load(); busy && !busy->is_quiet()) run.others = busy->others;
  return run;
}

std::optional<StepRun> steps_that_fit(const PhysicalGraph& graph, std::int64_t count,
                                      double yardstick_s) {
  try {
    return watched_steps(graph, count, yardstick_s);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInfeasible) throw;
    return std::nullopt;
  }
}

}  // namespace

StepRun run_steps(const PhysicalGraph& graph, std::int64_t warm_up, std::int64_t count) {
  using Clock = std::chrono::steady_clock;
  CpuWorld world(graph, {});
  TrainingHost host(0);
  std::vector<double> seconds;
  Clock::time_point last = Clock::now();
  double processor_begin = 0, processor_end = 0;
  host.on_step([&](const StepMetrics& step) {
    const Clock::time_point now = Clock::now();
    processor_end = process_seconds();
    if (step.step >= warm_up)
      seconds.push_back(std::chrono::duration<double>(now - last).count());
    else
      processor_begin = processor_end;
    last = now;
  });
  run_all(graph, world.devices(), host, warm_up + count);
  return {.wall_s = median(seconds),
          .processor_s = (processor_end - processor_begin) / static_cast<double>(count)};
}

double quiet_seconds(const StepRun& run, double cores) {
  const double without_others = run.wall_s * (1 - run.others);
  const double least = std::min(run.processor_s / cores, run.wall_s);
  return std::max(without_others, least) / run.slowdown;
}

std::optional<BesideKernels> time_beside_kernels(const CpuBench& bench, const Cluster& cluster,
                                                 DType dtype, const std::vector<WholeStep>& steps,
                                                 double seconds) {
  const TimingModels models = make_timing_models(cluster, dtype);
  double logarithms = 0;
  BesideKernels beside;
  std::size_t runs = 0;
  for (int pass = 0; pass < kPasses; ++pass)
    for (const WholeStep& step : steps) {
      const double predicted_s =
          to_seconds(simulate(step.graph, *models.cost, *models.network).step_time);
      const auto count =
          static_cast<std::int64_t>(std::clamp<double>(seconds / predicted_s, kFewest, kMost));
      const auto run = steps_that_fit(step.graph, count, bench.yardstick_s());
      if (!run) continue;
      logarithms += std::log(quiet_seconds(*run, static_cast<double>(bench.cores())) / predicted_s);
      ++runs;
      if (pass == 0) ++beside.steps;
    }
  if (runs == 0) return std::nullopt;
  beside.times = std::exp(logarithms / static_cast<double>(runs));
  const bool makes_sense = beside.times >= kLeastTimes && beside.times <= kMostTimes;
  return makes_sense ? std::optional(beside) : std::nullopt;
}

DeviceKind stretched(DeviceKind device, double times, const std::string& source) {
  const auto slower = [&](Sourced& rate) {
    rate.value /= times;
    rate.source += source;
  };
  for (PeakRate& peak : device.peaks) slower(peak.flops_per_second);
  slower(device.memory_bandwidth);
  device.kernel_overhead.value *= times;
  device.kernel_overhead.source += source;
  if (!device.measured) return device;
  for (MeasuredKernel& kernel : device.measured->kernels) kernel.seconds *= times;
  device.measured->source += source;
  return device;
}

}  // namespace sextant
