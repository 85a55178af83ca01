// The cluster file of this machine's CPU: measured in short, written and read again.
#include "experiments/cpu_cluster_bench.h"

#include "backends/cpu/machine_load.h"
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "models/model.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace sextant::cpu_cluster_bench_test {
namespace {

constexpr const char* kTinyModel = "gpt:layers=1,hidden=8,heads=1,vocab=8,seq=4";

PhysicalGraph tiny_step(const Cluster& cluster, const std::string& strategy_text) {
  const Strategy strategy = parse_strategy(strategy_text);
  const TimingModels models = make_timing_models(cluster, DType::kF32);
  const ModelConfig model = load_model(kTinyModel);
  const std::int64_t samples = strategy.dp * strategy.micro_batch;
  const LogicalGraph training =
      make_training_graph(build_graph(model, samples, model.sequence, DType::kF32), strategy);
  return compile(training, strategy, samples, *models.cost, *models.network);
}

void check_measured(const Sourced& figure) {
  CHECK(std::isfinite(figure.value));
  CHECK(figure.value > 0);
  CHECK(figure.provenance == Provenance::kMeasured);
  CHECK(figure.source.find("2001-02-03") != std::string::npos);
}

TEST_CASE("the file of a measured CPU is read back as it was measured") {
  const Cluster base = load_cluster("cpu:ranks=2,memory=1GiB");
  // So short that every call is made a few times only: the figures are coarse, but figures.
  CpuBench bench({.ranks = 2, .cores = usable_cores(), .seconds_per_call = 1e-5});
  const Cluster measured = measure_cpu_cluster(
      bench, base, tiny_step(base, "dp=2 micro_batch=1"),
      {{.name = "tiny", .graph = tiny_step(base, "dp=1 micro_batch=2"), .id_limit = 8}}, {},
      {.date = "2001-02-03", .say = [](const std::string&) {}});

  const std::string text = to_json_text(measured);
  const Cluster read = cluster_from_json(text, "here.json");
  CHECK(to_json_text(read) == text);
  CHECK(read.num_devices() == 2);
  CHECK(read.device.memory == base.device.memory);
  check_measured(read.device.memory_bandwidth);
  check_measured(read.device.yardstick);
  CHECK(read.device.yardstick.value == bench.yardstick_s());
  check_measured(peak_of(read.device, DType::kF32).flops_per_second);
  check_measured(read.intra_node.bandwidth);
  REQUIRE(read.device.measured.has_value());
  CHECK(read.device.measured->kernels == measured.device.measured->kernels);

  // Who plans on the file plans on what was measured.
  const PhysicalGraph from_file = tiny_step(read, "dp=2 micro_batch=1");
  CHECK(from_file == tiny_step(measured, "dp=2 micro_batch=1"));
}

TEST_CASE("whole steps stretch what computes, and only that") {
  const Cluster base = load_cluster("cpu:ranks=2,memory=1GiB");
  CpuBench bench({.ranks = 2, .cores = usable_cores(), .seconds_per_call = 1e-5});
  CHECK(time_beside_kernels(bench, base, DType::kF32, {}, 1) == 1);
  // A cluster on which nothing takes long is far from what a step takes here, one on which all
  // takes a hundred times as long is nearer by about that.
  const std::vector<WholeStep> steps = {{"tiny", tiny_step(base, "dp=2 micro_batch=1")}};
  Cluster fast = base;
  fast.device.kernel_overhead.value = 1e-9;
  Cluster slow = fast;
  stretch(slow.device, 100, "; a hundred");
  CHECK(slow.device.kernel_overhead.value == doctest::Approx(1e-7));
  CHECK(slow.device.memory_bandwidth.value ==
        doctest::Approx(fast.device.memory_bandwidth.value / 100));
  CHECK(slow.device.peaks.front().flops_per_second.value ==
        doctest::Approx(fast.device.peaks.front().flops_per_second.value / 100));
  CHECK(slow.device.peaks.front().flops_per_second.source.ends_with("; a hundred"));
  CHECK(slow.intra_node.bandwidth.value == fast.intra_node.bandwidth.value);
  const double times = time_beside_kernels(bench, fast, DType::kF32, steps, 0.01);
  CHECK(std::isfinite(times));
  CHECK(times > time_beside_kernels(bench, slow, DType::kF32, steps, 0.01));

  Cluster table = fast;
  table.device.measured.emplace().kernels.emplace_back().seconds = 2;
  stretch(table.device, 1.5, "");
  CHECK(table.device.measured->kernels.front().seconds == 3);
}

TEST_CASE("a measured CPU says what whole steps took over their kernels") {
  const Cluster base = load_cluster("cpu:ranks=2,memory=1GiB");
  CpuBench bench({.ranks = 2, .cores = usable_cores(), .seconds_per_call = 1e-5});
  const PhysicalGraph step = tiny_step(base, "dp=2 micro_batch=1");
  const Cluster measured = measure_cpu_cluster(
      bench, base, step, {}, {{"tiny", step}},
      {.date = "2001-02-03", .seconds_per_step = 0.01, .say = [](const std::string&) {}});
  CHECK(measured.device.measured->source.find("what 1 whole step took over its kernels") !=
        std::string::npos);
  CHECK(measured.device.kernel_overhead.value > 0);
}

}  // namespace
}  // namespace sextant::cpu_cluster_bench_test
