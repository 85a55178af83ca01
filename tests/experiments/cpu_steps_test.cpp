// The arithmetic of whole steps by hand, and one step that runs.
#include "experiments/cpu_steps.h"

#include "backends/cpu/machine_load.h"
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::cpu_steps_test {
namespace {

TEST_CASE("what others took is taken off a step, but not its own processor time") {
  const auto seconds = [](double wall, double processor, double others, double slowdown) {
    return quiet_seconds({wall, processor, others, slowdown}, 2);
  };
  CHECK(seconds(1, 1.6, 0, 1) == doctest::Approx(1));
  CHECK(seconds(1, 1.6, 0, 1.25) == doctest::Approx(0.8));  // at the bench's speed
  CHECK(seconds(2, 1.6, 0.25, 1) == doctest::Approx(1.5));  // a quarter of both cores
  CHECK(seconds(1, 1.8, 0.5, 1) == doctest::Approx(0.9));   // half of a machine of more cores
  CHECK(seconds(1, 1.8, 1, 1) == doctest::Approx(0.9));     // never nothing
  CHECK(seconds(1, 2.4, 0, 1) == doctest::Approx(1));       // never longer than it was
}

PhysicalGraph tiny_step(const Cluster& cluster) {
  const Strategy strategy = parse_strategy("dp=2 micro_batch=1");
  const TimingModels models = make_timing_models(cluster, DType::kF32);
  const ModelConfig model = load_model("gpt:layers=1,hidden=8,heads=1,vocab=8,seq=4");
  const LogicalGraph training =
      make_training_graph(build_graph(model, 2, model.sequence, DType::kF32), strategy);
  return compile(training, strategy, 2, *models.cost, *models.network);
}

TEST_CASE("a step beside what a cluster predicts: nothing where the answer makes no sense") {
  const Cluster base = load_cluster("cpu:ranks=2,memory=1GiB");
  const CpuBench bench({.ranks = 2, .cores = usable_cores(), .seconds_per_call = 1e-5});
  CHECK(!time_beside_kernels(bench, base, DType::kF32, {}, 1));
  const std::vector<WholeStep> steps = {{"tiny", tiny_step(base)}};
  // A kernel of a microsecond is too fast for any CPU's step, one of a second too slow; between
  // them are some that are near it.
  const auto times = [&](double overhead_s) {
    Cluster cluster = base;
    cluster.device.kernel_overhead.value = overhead_s;
    return time_beside_kernels(bench, cluster, DType::kF32, steps, 0.01);
  };
  CHECK(!times(1e-9));
  CHECK(!times(1));
  bool is_near = false;
  for (double overhead_s = 1e-6; overhead_s < 1e-2 && !is_near; overhead_s *= 2)
    is_near = times(overhead_s).has_value();
  CHECK(is_near);
}

TEST_CASE("what computes is stretched, what communicates is not") {
  const DeviceKind device = load_cluster("cpu:ranks=2,memory=1GiB").device;
  DeviceKind table = device;
  table.measured.emplace().kernels.emplace_back().seconds = 2;
  const DeviceKind slow = stretched(table, 1.5, "; so much");
  CHECK(slow.kernel_overhead.value == doctest::Approx(1.5 * device.kernel_overhead.value));
  CHECK(slow.memory_bandwidth.value == doctest::Approx(device.memory_bandwidth.value / 1.5));
  for (std::size_t i = 0; i < device.peaks.size(); ++i) {
    CHECK(slow.peaks[i].flops_per_second.value ==
          doctest::Approx(device.peaks[i].flops_per_second.value / 1.5));
    CHECK(slow.peaks[i].flops_per_second.source.ends_with("; so much"));
  }
  CHECK(slow.measured->kernels.front().seconds == doctest::Approx(3));
  CHECK(slow.measured->source == "; so much");
  CHECK(slow.launch_overhead.value == device.launch_overhead.value);
}

}  // namespace
}  // namespace sextant::cpu_steps_test
