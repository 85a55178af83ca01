// Sizes are those of models that train on a CPU; a large product takes tens of milliseconds there.
#include "experiments/cpu_cluster_bench.h"

#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "experiments/link_measurement.h"
#include "experiments/step_timing.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kRowsOnCores[] = {16, 128, 1024};
constexpr std::int64_t kSizesOnCores[] = {32, 128, 512, 2048};
constexpr double kMostFlops = 6e8;  // of one product: 20 ms at 30 GFLOP/s

// What others do to the caches of a host changes from second to second: each launch is measured at
// times that are seconds apart.
constexpr int kPassesOfSteps = 2;

constexpr std::int64_t kStepsOfLaunches = 12, kWarmUpSteps = 4;

void add_products(KernelMeasurement& measurement) {
  for (const std::int64_t m : kRowsOnCores)
    for (const std::int64_t n : kSizesOnCores)
      for (const std::int64_t k : kSizesOnCores)
        if (2.0 * static_cast<double>(m * n * k) <= kMostFlops)
          measurement.add("matmul", {measurement.type({m, k}), measurement.type({k, n})}, {});
}

// Processor time that one launch of a rank takes beside its kernel: queues, fences, the runtime,
// the threads that wake up. The kernels of the step are timed and taken off.
double launch_seconds(CpuBench& bench, const PhysicalGraph& graph) {
  const double all_ranks_s = run_steps(graph, kWarmUpSteps, kStepsOfLaunches).processor_s;
  double kernels_s = 0;
  for (const TimedLaunch& launch : time_step(graph, bench)) kernels_s += launch.seconds_per_step();
  const auto ranks = static_cast<double>(graph.ranks.size());
  const auto launches = static_cast<double>(graph.program_of(Rank(0)).order.size());
  return std::max(all_ranks_s / ranks - kernels_s / bench.ranks_per_core(), 0.0) / launches;
}

struct MeasuredWay {
  Primitive primitive = Primitive::kAllReduce;
  const char* algorithm = "";
  double fixed = 0, rate = 0;  // s, B/s
};

// Two sizes: what a meeting takes at least, and one whose bytes are most of its time.
MeasuredWay measure_way(CpuBench& bench, Primitive primitive, const char* algorithm, double ranks) {
  constexpr std::int64_t kSmall = 1 << 10, kLarge = 4 << 20;
  const double small = bench.meet(primitive, Bytes(kSmall)).median_s;
  const double large = bench.meet(primitive, Bytes(kLarge)).median_s;
  const double share = link_bytes_per_tensor_byte(primitive, ranks);
  const double per_byte = std::max(large - small, 0.1 * large) / (share * (kLarge - kSmall));
  return {primitive, algorithm, std::max(small - share * kSmall * per_byte, 0.0), 1 / per_byte};
}

NetworkLink measure_link(CpuBench& bench, NetworkLink link, std::int64_t ranks,
                         const std::string& source) {
  const auto measured = [&source](double value) {
    return Sourced{value, Provenance::kMeasured, source};
  };
  const auto n = static_cast<double>(ranks);
  const std::array<std::pair<Primitive, const char*>, 5> kWays = {
      {{Primitive::kAllReduce, "ring"},
       {Primitive::kReduceScatter, "ring"},
       {Primitive::kAllGather, "ring"},
       {Primitive::kAllToAll, "pairwise"},
       {Primitive::kTransfer, "pairwise"}}};
  std::vector<MeasuredWay> ways;
  for (const auto& [primitive, algorithm] : kWays)
    ways.push_back(measure_way(bench, primitive, algorithm, n));
  double best = 0;
  for (const MeasuredWay& way : ways) best = std::max(best, way.rate);
  link.bandwidth = measured(best);
  link.latency = measured(ways.back().fixed);
  link.efficiency = measured(ways.front().rate / best);
  link.algorithms.clear();
  for (const MeasuredWay& way : ways)
    link.algorithms.push_back({.name = way.algorithm,
                               .protocol = "simple",
                               .base_latency = measured(way.fixed),
                               .step_latency = measured(0),
                               .efficiency = measured(way.rate / best),
                               .primitive = std::string(to_string(way.primitive))});
  return link;
}

double flops_per_second(const std::vector<MeasuredKernel>& kernels) {
  double best = 0;
  for (const MeasuredKernel& one : kernels)
    if (one.kernel.starts_with("matmul:")) best = std::max(best, one.flops / one.seconds);
  return best;
}

// What was measured of one type; the others keep their ratio to it, which nobody measured.
void set_peaks(DeviceKind& device, DType dtype, const Sourced& measured) {
  const double before = peak_of(device, dtype).flops_per_second.value;
  for (PeakRate& peak : device.peaks) {
    if (peak.dtype == dtype) {
      peak.flops_per_second = measured;
      continue;
    }
    const double ratio = peak.flops_per_second.value / before;
    peak.flops_per_second = {measured.value * ratio, Provenance::kAssumed,
                             fmt::format("{:g} times the measured {}", ratio, to_string(dtype))};
  }
}

std::string stretch_text(const BesideKernels& beside) {
  return fmt::format("; times {:.3g}, what {} took over {} kernels by themselves", beside.times,
                     counted(beside.steps, "whole step"), beside.steps == 1 ? "its" : "their");
}

// A sum of two tensors that no cache holds.
double bytes_per_second(CpuBench& bench) {
  KernelMeasurement large(bench, DType::kF32, 0, [](const std::string&) {});
  const TensorType x = large.type({4096, 1024});
  large.add("add", {x, x}, {});
  const MeasuredKernel row = large.take().at(0);
  return static_cast<double>(row.bytes.value) / row.seconds;
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const std::size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "CPU";
}

Cluster measure_cpu_cluster(CpuBench& bench, const Cluster& cluster, const PhysicalGraph& launches,
                            const std::vector<BenchedStep>& steps,
                            const std::vector<WholeStep>& whole,
                            const CpuClusterBenchOptions& options) {
  const std::int64_t ranks = cluster.num_devices();
  const std::string sharing =
      bench.ranks_per_core() > 1
          ? fmt::format(", {} ranks busy, {:g} to a core", ranks, bench.ranks_per_core())
          : fmt::format(", {} rank{} busy", ranks, ranks == 1 ? "" : "s");
  const std::string source =
      fmt::format("cluster bench on {}, {}{}", processor_name(), options.date, sharing);
  const auto measured = [&source](double value, const std::string& more = "") {
    return Sourced{value, Provenance::kMeasured, source + more};
  };
  Cluster made = cluster;
  made.name = measured_name(cluster.name);
  DeviceKind& device = made.device;
  device.name = "cpu-core of " + processor_name();
  options.say("launches");
  const double overhead_s = launch_seconds(bench, launches) * bench.ranks_per_core();
  device.kernel_overhead = measured(overhead_s);
  device.launch_overhead = measured(0, ": a launch is counted with its kernel, on the same cores");
  options.say("products");
  KernelMeasurement measurement(bench, options.dtype, overhead_s, options.say,
                                KernelMeasurement::Typical::kMean);
  add_products(measurement);
  for (int pass = 0; pass < kPassesOfSteps; ++pass)
    for (const BenchedStep& step : steps) {
      options.say("launches of " + step.name);
      measurement.add_step(step);
    }
  options.say("memory");
  device.memory_bandwidth = measured(bytes_per_second(bench));
  device.memory_efficiency = measured(1);
  device.yardstick = measured(bench.yardstick_s());
  device.measured = MeasuredKernels{.dtype = options.dtype,
                                    .provenance = Provenance::kMeasured,
                                    .source = source,
                                    .kernels = measurement.take()};
  device.matmul_efficiency = measured(1);
  set_peaks(
      device, options.dtype,
      measured(flops_per_second(device.measured->kernels), ": the fastest product of the table"));
  if (ranks > 1) {
    options.say("meetings");
    made.intra_node = measure_link(bench, made.intra_node, ranks, source);
  }
  if (!whole.empty()) options.say("whole steps");
  if (const auto beside =
          time_beside_kernels(bench, made, options.dtype, whole, options.seconds_per_step))
    made.device = stretched(std::move(made.device), beside->times, stretch_text(*beside));
  return made;
}

}  // namespace sextant
