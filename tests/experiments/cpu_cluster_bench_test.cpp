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

TEST_CASE(
    "a measured CPU says what whole steps took over their kernels, and has it in every figure") {
  const Cluster base = load_cluster("cpu:ranks=2,memory=1GiB");
  CpuBench bench({.ranks = 2, .cores = usable_cores(), .seconds_per_call = 1e-5});
  const PhysicalGraph step = tiny_step(base, "dp=2 micro_batch=1");
  const Cluster measured = measure_cpu_cluster(
      bench, base, step, {}, {{"tiny", step}},
      {.date = "2001-02-03", .seconds_per_step = 0.01, .say = [](const std::string&) {}});
  // Figures as coarse as these may make no sense beside a step; then nothing is stretched, and
  // said.
  const std::string& source = measured.device.measured->source;
  const std::size_t said = source.find("; times ");
  const bool is_stretched = said != std::string::npos;
  if (is_stretched) {
    const double times = std::stod(source.substr(said + 8));
    CHECK(times >= 0.5);
    CHECK(times <= 4);
    CHECK(source.ends_with("what 1 whole step took over its kernels by themselves"));
  }
  for (const Sourced& figure : {measured.device.memory_bandwidth, measured.device.kernel_overhead,
                                peak_of(measured.device, DType::kF32).flops_per_second})
    CHECK((figure.source.find("; times ") != std::string::npos) == is_stretched);
  CHECK(measured.device.yardstick.value == bench.yardstick_s());
}

}  // namespace
}  // namespace sextant::cpu_cluster_bench_test
