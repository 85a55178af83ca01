// Sizes are those of models: products of 1,024 to 16,384 rows, kernels of 16 KiB to 1 GiB.
#include "experiments/cluster_bench.h"

#include "core/check.h"
#include "core/fused_kinds.h"
#include "core/operator.h"
#include "experiments/micro/plan_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace sextant {
namespace {

constexpr std::int64_t kRows[] = {1024, 4096, 16384};
constexpr std::int64_t kColumns[] = {1024, 1600, 4096, 6400, 8192};
constexpr std::int64_t kWidth = 1024;  // of rows that kernels are measured on

// One operator on whole tensors.
class OperatorCall {
 public:
  OperatorCall(const std::string& kind, const std::vector<TensorType>& inputs,
               const Attributes& attributes) {
    const OperatorDef& def = builtin_operators().get(kind);
    const std::vector<TensorType> outputs = def.infer(inputs, attributes);
    actor_.kind = kind;
    actor_.name = kind;
    actor_.attributes = attributes;
    actor_.work = def.work(inputs, outputs, attributes);
    layouts_.reserve(inputs.size() + outputs.size());
    for (const TensorType& type : inputs) add(type, context_.in);
    for (const TensorType& type : outputs) add(type, context_.out);
    context_.accumulate.assign(outputs.size(), false);
    context_.actor = &actor_;
  }
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  const KernelContext& context() const { return context_; }
  const Work& work() const { return actor_.work; }

 private:
  void add(const TensorType& type, std::vector<KernelOperand>& operands) {
    layouts_.push_back({.global = type, .words = {}, .placement = {}});
    KernelOperand operand;
    operand.local = type;
    operand.layout = &layouts_.back();
    for (const std::int64_t extent : type.shape.extents())
      operand.box.dims.push_back({.offset = 0, .extent = extent});
    operands.push_back(std::move(operand));
  }

  Actor actor_;
  std::vector<Layout> layouts_;
  KernelContext context_;
};

MeasuredKernel entry_of(const Work& work, double seconds) {
  return {.kernel = work.kernel,
          .flops = work.flops,
          .bytes = work.read + work.written,
          .seconds = seconds};
}

class Measurement {
 public:
  Measurement(CudaBench& bench, const ClusterBenchOptions& options)
      : bench_(bench), options_(options) {}

  void add_products() {
    options_.say("products");
    for (const std::int64_t m : kRows)
      for (const std::int64_t n : kColumns)
        for (const std::int64_t k : kColumns) add("matmul", {type({m, k}), type({k, n})}, {});
  }

  // By size, in steps of a factor of four.
  void add_kernels() {
    options_.say("kernels by size");
    for (std::int64_t rows = 8; rows <= std::int64_t{1} << 19; rows *= 4) {
      const TensorType x = type({rows, kWidth}), weight = type({kWidth});
      add("add", {x, x}, {});
      add("gelu", {x}, {{"approximate", std::string("tanh")}});
      add("layer_norm", {x, weight, weight}, {{"epsilon", 1e-5}});
      add("transpose", {x}, {{"permutation", std::vector<std::int64_t>{1, 0}}});
      add("reduce_to_bias", {x}, {});
    }
  }

  void add_attention() {
    options_.say("attention");
    for (const std::int64_t head : {64, 128})
      for (const std::int64_t sequence : {512, 1024, 2048, 4096}) {
        const TensorType q = type({8192 / sequence, sequence, 16, head});
        add("attention", {q, q, q}, {});
      }
  }

  void add_step(const BenchedStep& step) {
    options_.say("launches of " + step.name);
    bench_.set_id_limit(step.id_limit);
    double members_s = 0;
    for (const TimedLaunch& launch : time_step(step.graph, bench_)) {
      if (launch.work.kernel == "none" && !launch.is_member) continue;  // a view starts none
      if (!launch.timing)
        options_.say(fmt::format("no kernel for {} ({})", launch.kind, launch.types));
      if (launch.is_member) {
        // Cost models know the whole of a fused operator; nothing is known of it where a member is
        // not.
        members_s += launch.timing ? launch.timing->median_s : std::nan("");
        if (!launch.ends) continue;
        const double whole_s = std::exchange(members_s, 0);
        if (std::isfinite(whole_s)) measured_.push_back(entry_of(*launch.ends, whole_s));
        continue;
      }
      if (!launch.timing) continue;
      // What one launch does for many calls is shared among them by their bytes; cost models see
      // single calls.
      if (launch.calls == 1) measured_.push_back(entry_of(launch.work, launch.timing->median_s));
      for (const Work& work : launch.works)
        if (launch.calls > 1) add_share(launch, work);
    }
  }

  // One row per work, the mean of its times: shares of launches differ by the company they had.
  std::vector<MeasuredKernel> take() {
    std::vector<MeasuredKernel> rows;
    std::vector<double> counts;
    for (const MeasuredKernel& one : measured_) {
      const auto row = std::find_if(rows.begin(), rows.end(), [&](const MeasuredKernel& before) {
        return before.kernel == one.kernel && before.flops == one.flops &&
               before.bytes == one.bytes;
      });
      const auto at = static_cast<std::size_t>(row - rows.begin());
      if (row == rows.end()) {
        rows.push_back(one);
        counts.push_back(1);
      } else {
        row->seconds += (one.seconds - row->seconds) / ++counts[at];
      }
    }
    return rows;
  }

 private:
  TensorType type(std::vector<std::int64_t> extents) const {
    return {.shape = Shape(std::move(extents)), .dtype = options_.dtype};
  }

  void add(const std::string& kind, const std::vector<TensorType>& inputs,
           const Attributes& attributes) {
    try {
      const OperatorCall call(kind, inputs, attributes);
      if (const auto timing = bench_.time(std::span(&call.context(), 1)))
        measured_.push_back(entry_of(call.work(), timing->median_s));
      else
        options_.say("no kernel for " + kind);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kBadInput) throw;
      options_.say(kind + " is left out: " + error.what());
    }
  }

  void add_share(const TimedLaunch& launch, const Work& work) {
    const auto bytes = [](const Work& of) {
      return static_cast<double>(of.read.value + of.written.value);
    };
    if (bytes(launch.work) > 0 && bytes(work) > 0)
      measured_.push_back(
          entry_of(work, launch.timing->median_s * bytes(work) / bytes(launch.work)));
  }

  CudaBench& bench_;
  const ClusterBenchOptions& options_;
  std::vector<MeasuredKernel> measured_;
};

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
  cluster.name = base.name + "-measured";
  device.name = card.name;
  device.memory = card.memory;
  options.say("copies, launches");
  const Bytes size(std::int64_t{1} << 30);
  device.memory_bandwidth =
      measured(2 * static_cast<double>(size.value) / bench.copy(size).median_s);
  device.memory_efficiency = measured(1);
  device.launch_overhead = measured(bench.launch_s());
  device.kernel_overhead = measured(bench.kernel_overhead_s());
  for (const PeakRate& peak : device.peaks)
    if (peak.dtype == options.dtype)
      device.matmul_efficiency =
          measured(std::min(1.0, best_product(bench, options.dtype) / peak.flops_per_second.value));
  Measurement measurement(bench, options);
  bench.keep_busy();
  measurement.add_products();
  measurement.add_kernels();
  measurement.add_attention();
  for (const BenchedStep& step : steps) measurement.add_step(step);
  device.measured = MeasuredKernels{.dtype = options.dtype,
                                    .provenance = Provenance::kMeasured,
                                    .source = source,
                                    .kernels = measurement.take()};
  return cluster;
}

}  // namespace sextant
