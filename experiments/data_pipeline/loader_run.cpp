// A step ends when its metrics are read.
#include "experiments/data_pipeline/loader_run.h"

#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "compiler/expand/data_actors.h"
#include "core/base/check.h"
#include "io/training_host.h"

#include <algorithm>
#include <chrono>
#include <optional>

#ifdef SEXTANT_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif

namespace sextant {
namespace {

constexpr Bytes kRoomForSynthetic{std::int64_t{1} << 30};

void run_on_cpu(const PhysicalGraph& graph, HostActors& host, std::int64_t steps) {
  CpuOptions options;
  options.queues = CpuQueueKind::kAsynchronous;
  options.kernels = CpuKernels::kFast;
  CpuWorld world(graph, options);
  run_all(graph, world.devices(), host, steps);
}

#ifdef SEXTANT_HAS_CUDA
std::string why_no_gpu() { return why_no_cuda_device(); }

// As `sextant run` trains: choices measured, a step as one graph.
void run_on_gpu(const PhysicalGraph& graph, HostActors& host, std::int64_t steps) {
  CudaWorldOptions options;
  options.each.tune_matmuls = true;
  CudaWorld world(graph, options);
  run_all(graph, world.devices(), host, steps);
}
#else
std::string why_no_gpu() { return "this build has no CUDA"; }

void run_on_gpu(const PhysicalGraph&, HostActors&, std::int64_t) {
  fail(ErrorCode::kDevice, "{}", why_no_gpu());
}
#endif

}  // namespace

LoaderBackend parse_loader_backend(std::string_view text) {
  if (text == "cpu") return LoaderBackend::kCpu;
  require(text == "cuda", ErrorCode::kUsage, "--backend '{}' is not one of cpu, cuda", text);
  const std::string reason = why_no_gpu();
  require(reason.empty(), ErrorCode::kDevice, "no usable GPU: {}", reason);
  return LoaderBackend::kCuda;
}

std::vector<Loader> all_loaders() {
  return {{"synthetic", true, 0},
          {"whole", false, 0},
          {"1 register", false, 1},
          {"2 registers", false, 2}};
}

LoaderTimes time_loader(const PhysicalGraph& graph, const SampleData& data, const Loader& loader,
                        LoaderBackend backend, std::int64_t steps, std::uint64_t seed) {
  PhysicalGraph run = graph;
  if (loader.registers > 0)
    add_data_actors(run, data.main_input(), data.stage_kinds(), loader.registers);
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
  if (backend == LoaderBackend::kCuda)
    run_on_gpu(run, timed, steps);
  else
    run_on_cpu(run, timed, steps);
  LoaderTimes times;
  for (std::size_t i = static_cast<std::size_t>(kWarmUpOfLoader); i < ends.size(); ++i)
    times.step_s.push_back(ends[i] - ends[i - 1]);
  for (const StepMetrics& metrics : host->steps()) times.losses.push_back(metrics.loss());
  times.data = timed.times(run);
  return times;
}

}  // namespace sextant
