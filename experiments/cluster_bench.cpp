// Sizes are those of models: products of 1,024 to 16,384 rows, kernels of 16 KiB to 1 GiB.
#include "experiments/cluster_bench.h"

#include "core/base/check.h"
#include "core/graphs/operator.h"
#include "simulator/costs/models.h"

#include <fmt/core.h>

#include <algorithm>

namespace sextant {
namespace {

constexpr std::int64_t kProductRows[] = {1024, 4096, 16384};
constexpr std::int64_t kProductColumns[] = {1024, 1600, 4096, 6400, 8192};
constexpr std::int64_t kWidth = 1024;  // of rows that kernels are measured on

// Products of model sizes.
void add_model_products(KernelMeasurement& measurement) {
  for (const std::int64_t m : kProductRows)
    for (const std::int64_t n : kProductColumns)
      for (const std::int64_t k : kProductColumns)
        measurement.add("matmul", {measurement.type({m, k}), measurement.type({k, n})}, {});
}

// By size, in steps of a factor of four.
void add_kernels(KernelMeasurement& measurement) {
  for (std::int64_t rows = 8; rows <= std::int64_t{1} << 19; rows *= 4) {
    const TensorType x = measurement.type({rows, kWidth}), weight = measurement.type({kWidth});
    measurement.add("add", {x, x}, {});
    measurement.add("gelu", {x}, {{"approximate", std::string("tanh")}});
    measurement.add("layer_norm", {x, weight, weight}, {{"epsilon", 1e-5}});
    measurement.add("transpose", {x}, {{"permutation", std::vector<std::int64_t>{1, 0}}});
    measurement.add("reduce_to_bias", {x}, {});
  }
}

// Whole sequences of a few sizes, and their gradients: of 2,048 tokens to 16,384, heads of 16.
void add_attention(KernelMeasurement& measurement) {
  for (const std::int64_t head : {64, 128})
    for (const std::int64_t sequence : {512, 1024, 2048, 4096})
      for (const std::int64_t tokens : {2048, 8192, 16384}) {
        if (tokens < sequence) continue;
        const TensorType q = measurement.type({tokens / sequence, sequence, 16, head});
        measurement.add("attention", {q, q, q}, {});
        const auto made = builtin_operators().get("attention").infer(std::vector{q, q, q}, {});
        measurement.add("attention_grad", {q, q, q, made[0], made[1], made[0]}, {});
      }
}

double best_product(CudaBench& bench, DType dtype) {
  double best = 0;
  for (const std::int64_t n : {4096, 8192})
    best = std::max(best,
                    2.0 * static_cast<double>(n * n * n) / bench.matmul(n, n, n, dtype).median_s);
  return best;
}

}  // namespace

Cluster measure_cluster(CudaBench& bench, const Cluster& base,
                        const std::vector<BenchedStep>& steps, const ClusterBenchOptions& options) {
  const CudaCard card = bench.card();
  const std::string source = fmt::format("cluster bench on {}, driver {}, CUDA {}, {}", card.name,
                                         card.driver, card.runtime, options.date);
  const auto measured = [&source](double value) {
    return Sourced{.value = value, .provenance = Provenance::kMeasured, .source = source};
  };
  Cluster cluster = base;
  DeviceKind& device = cluster.device;
  cluster.name = measured_name(base.name);
  device.name = card.name;
  device.memory = card.memory;
  options.say("copies, launches");
  const Bytes size(std::int64_t{1} << 30);
  // Rates of the base are shares of its bandwidth, so that stays where a card can have it.
  const double copied = 2 * static_cast<double>(size.value) / bench.copy(size).median_s;
  const double share = copied / device.memory_bandwidth.value;
  if (share > 1) device.memory_bandwidth = measured(copied);
  device.memory_efficiency = measured(std::min(share, 1.0));
  device.launch_overhead = measured(bench.launch_s());
  device.kernel_overhead = measured(bench.kernel_overhead_s());
  for (const PeakRate& peak : device.peaks)
    if (peak.dtype == options.dtype)
      device.matmul_efficiency =
          measured(std::min(1.0, best_product(bench, options.dtype) / peak.flops_per_second.value));
  KernelMeasurement measurement(bench, options.dtype, 0, options.say);
  bench.keep_busy();
  options.say("products");
  add_model_products(measurement);
  options.say("kernels by size");
  add_kernels(measurement);
  options.say("attention");
  add_attention(measurement);
  for (const BenchedStep& step : steps) {
    options.say("launches of " + step.name);
    measurement.add_step(step);
  }
  device.measured = MeasuredKernels{.dtype = options.dtype,
                                    .provenance = Provenance::kMeasured,
                                    .source = source,
                                    .kernels = measurement.take()};
  device.measured->expected_error = leave_one_out_error(cluster);
  return cluster;
}

}  // namespace sextant
