// A step ends when its metrics are read.
#include "experiments/data_pipeline/loader_run.h"

#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "compiler/expand/data_actors.h"
#include "io/training_host.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace sextant {
namespace {

constexpr Bytes kRoomForSynthetic{std::int64_t{1} << 30};

}  // namespace

std::vector<Loader> all_loaders() {
  return {{"synthetic", true, 0},
          {"whole", false, 0},
          {"1 register", false, 1},
          {"2 registers", false, 2}};
}

LoaderTimes time_loader(const PhysicalGraph& graph, const SampleData& data, const Loader& loader,
                        std::int64_t steps, std::uint64_t seed) {
  PhysicalGraph run = graph;
  if (loader.registers > 0)
    add_data_actors(run, data.main_input(), data.stage_kinds(), loader.registers);
  CpuOptions options;
  options.queues = CpuQueueKind::kAsynchronous;
  options.kernels = CpuKernels::kFast;
  CpuWorld world(run, options);
  std::optional<TrainingHost> host;
  if (loader.is_synthetic)
    host.emplace(seed, kRoomForSynthetic);
  else
    host.emplace(data, seed, kRoomForSynthetic, std::max(1, loader.registers));
  std::vector<double> ends;
  host->on_step([&](const StepMetrics&) {
    ends.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
  });
  TimedHostActors timed(*host, kWarmUpOfLoader);
  run_all(run, world.devices(), timed, steps);
  LoaderTimes times;
  for (std::size_t i = static_cast<std::size_t>(kWarmUpOfLoader); i < ends.size(); ++i)
    times.step_s.push_back(ends[i] - ends[i - 1]);
  for (const StepMetrics& metrics : host->steps()) times.losses.push_back(metrics.loss());
  times.data = timed.times(run);
  return times;
}

}  // namespace sextant
