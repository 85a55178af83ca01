// Steps run on the engine that trains, with losses that nobody reads.
#include "experiments/cpu_steps.h"

#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/machine_load.h"
#include "backends/cpu/yardstick.h"
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
// Of looks at the machine's speed: some ten while a step is measured.
constexpr std::chrono::milliseconds kPeriod{60};

// Seconds from the end of one step to the end of the next.
std::vector<double> step_seconds(const PhysicalGraph& graph, std::int64_t count) {
  using Clock = std::chrono::steady_clock;
  CpuWorld world(graph, {});
  TrainingHost host(0);
  std::vector<double> seconds;
  Clock::time_point last = Clock::now();
  host.on_step([&](const StepMetrics& step) {
    const Clock::time_point now = Clock::now();
    if (step.step >= kWarmUp) seconds.push_back(std::chrono::duration<double>(now - last).count());
    last = now;
  });
  run_all(graph, world.devices(), host, kWarmUp + count);
  return seconds;
}

// Cores that were there for it, as a share.
double share_left(const LoadWatch& watch) {
  const auto load = watch.load();
  return load && !load->is_quiet() ? 1 - load->others : 1;
}

}  // namespace

double time_beside_kernels(const CpuBench& bench, const Cluster& cluster, DType dtype,
                           const std::vector<WholeStep>& steps, double seconds) {
  if (steps.empty()) return 1;
  const TimingModels models = make_timing_models(cluster, dtype);
  double logarithms = 0;
  for (const WholeStep& step : steps) {
    const double predicted_s =
        to_seconds(simulate(step.graph, *models.cost, *models.network).step_time);
    const auto count = std::clamp(static_cast<std::int64_t>(seconds / predicted_s), kFewest, kMost);
    const LoadWatch load;
    const SpeedWatch speed(kPeriod);
    const double measured_s = median(step_seconds(step.graph, count)) * share_left(load);
    logarithms += std::log(measured_s / predicted_s / (speed.mean_seconds() / bench.yardstick_s()));
  }
  return std::exp(logarithms / static_cast<double>(steps.size()));
}

void stretch(DeviceKind& device, double times, const std::string& source) {
  const auto add = [&source](std::string& to) { to += source; };
  for (PeakRate& peak : device.peaks) {
    peak.flops_per_second.value /= times;
    add(peak.flops_per_second.source);
  }
  device.memory_bandwidth.value /= times;
  add(device.memory_bandwidth.source);
  device.kernel_overhead.value *= times;
  add(device.kernel_overhead.source);
  if (!device.measured) return;
  for (MeasuredKernel& kernel : device.measured->kernels) kernel.seconds *= times;
  add(device.measured->source);
}

}  // namespace sextant
