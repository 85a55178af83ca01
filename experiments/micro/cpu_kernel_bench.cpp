// The kernels of a training step on the CPU against what its cores can do at best, both measured in
// this run: which operator to make faster. Definitions: METRICS.md.
//
// `cpu_kernel_bench [MODEL:BATCHxSEQUENCE ...]`, MODEL as everywhere and a sequence of 1 for
// images; without models two layers of the shape of GPT-2 small, and ResNet-18 on 8 images of 64
// x 64. One rank has all cores that the process may use: `taskset -c 0,1` for two of them.
#include "backends/cpu/cpu_bench.h"
#include "backends/cpu/kernels/fast/gemm.h"
#include "backends/cpu/machine_load.h"
#include "compiler/expand/expand.h"
#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/graphs/physical_graph.h"
#include "experiments/step_text.h"
#include "experiments/step_timing.h"
#include "models/any_model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace sextant;

constexpr std::int64_t kIds = 1000;  // of every table and list of classes

struct CpuCeilings {
  double flops_per_second = 0, bytes_per_second = 0;
};

// Of the processor of the calling thread, as kernels are timed.
template <typename Work>
double least_seconds(const Work& work) {
  double least = std::numeric_limits<double>::infinity();
  for (int run = 0; run < 12; ++run) {
    const double begin = thread_seconds();
    work();
    least = std::min(least, thread_seconds() - begin);
  }
  return least;
}

// A product of 1024 x 1024 x 1024 in f32 and a copy of 64 MiB, read and written, on all cores.
CpuCeilings measure_ceilings(std::int64_t cores) {
  constexpr std::int64_t kSide = 1024;
  constexpr std::size_t kPart = std::size_t{1} << 20, kParts = 16;
  Team team(cores);
  Workspace workspace(&team);
  std::vector<float> a(kPart * kParts, 0.5F), b(kPart * kParts, 0.25F);
  const double copy_s = least_seconds([&] {
    workspace.run(kParts, [&](std::int64_t part, std::int64_t) {
      const std::size_t first = static_cast<std::size_t>(part) * kPart;
      std::memcpy(b.data() + first, a.data() + first, kPart * sizeof(float));
    });
  });
  std::vector<float> c(kSide * kSide);
  const double product_s = least_seconds([&] {
    gemm<float>(workspace, kSide, kSide, kSide, {a.data(), kSide, false}, {b.data(), kSide, false},
                0.0F, c.data(), kSide);
  });
  return {.flops_per_second = 2.0 * kSide * kSide * kSide / product_s,
          .bytes_per_second = 2.0 * kPart * kParts * sizeof(float) / copy_s};
}

PhysicalGraph compile_step(const StepText& step) {
  const Cluster cluster = load_cluster("cpu:ranks=1");
  const auto cost = make_roofline(cluster, DType::kF32);
  const auto network = make_alpha_beta(cluster);
  const Strategy strategy = parse_strategy(fmt::format("micro_batch={}", step.batch));
  const LogicalGraph forward =
      build_graph(load_any_model(step.model), step.batch, step.sequence, DType::kF32);
  return compile(make_training_graph(forward, strategy), strategy, step.batch, *cost, *network);
}

struct KindTotal {
  double seconds = 0, flops = 0, bytes = 0, floor_s = 0;
  std::int64_t launches = 0;
};

// Work that is mostly moving of bytes is told in GB/s.
void report(const std::string& kind, const KindTotal& total, const CpuCeilings& ceilings) {
  const bool computes =
      total.flops / ceilings.flops_per_second > total.bytes / ceilings.bytes_per_second;
  const std::string rate = computes
                               ? fmt::format("{:.1f} GFLOP/s", total.flops / total.seconds / 1e9)
                               : fmt::format("{:.1f} GB/s", total.bytes / total.seconds / 1e9);
  fmt::print("{:<26} {:>5} {:>10.3f} {:>15} {:>6.1f}\n", kind, total.launches, 1e3 * total.seconds,
             rate, 100 * total.floor_s / total.seconds);
}

void report_step(const std::string& text, CpuBench& bench, const CpuCeilings& ceilings) {
  std::map<std::string, KindTotal> kinds;
  KindTotal all;
  for (const TimedLaunch& launch : time_step(compile_step(parse_step(text)), bench)) {
    if (!launch.timing) continue;
    const auto count = static_cast<double>(launch.count);
    const double bytes = static_cast<double>(launch.work.read.value + launch.work.written.value);
    const double floor_s = count * std::max(bytes / ceilings.bytes_per_second,
                                            launch.work.flops / ceilings.flops_per_second);
    for (KindTotal* total : {&kinds[launch.kind], &all}) {
      total->seconds += launch.seconds_per_step();
      total->flops += count * launch.work.flops;
      total->bytes += count * bytes;
      total->floor_s += floor_s;
      total->launches += launch.count;
    }
  }
  std::vector<std::pair<std::string, KindTotal>> sorted(kinds.begin(), kinds.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return a.second.seconds > b.second.seconds;
  });
  fmt::print("\n{}\n{:<26} {:>5} {:>10} {:>15} {:>6}\n", text, "kind", "count", "ms/step", "rate",
             "% max");
  for (const auto& [kind, total] : sorted) report(kind, total, ceilings);
  report("all", all, ceilings);
  std::fflush(stdout);
}

void run(std::vector<std::string> steps) {
  if (steps.empty())
    steps = {"gpt:layers=2,hidden=768,heads=12,vocab=50257,seq=256:1x256",
             "resnet18:height=64,width=64:8x1"};
  const std::int64_t cores = usable_cores();
  const CpuCeilings ceilings = measure_ceilings(cores);
  fmt::print("{} cores: product of 1024^3 {:.1f} GFLOP/s, copy {:.1f} GB/s read and written\n",
             cores, ceilings.flops_per_second / 1e9, ceilings.bytes_per_second / 1e9);
  CpuBench bench({.ranks = 1, .cores = cores, .seconds_per_call = 0.1});
  bench.set_id_limit(kIds);
  for (const std::string& step : steps) report_step(step, bench, ceilings);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run({argv + 1, argv + argc});
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "cpu_kernel_bench: {}\n", error.what());
    return 1;
  }
}
