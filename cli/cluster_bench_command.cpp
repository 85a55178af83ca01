// `sextant cluster bench`: a cluster file with what this machine's GPU was measured to do.
#include "cli/verbs.h"
#include "core/check.h"
#include "simulator/cluster_file.h"
#include "simulator/models.h"

#ifdef SEXTANT_HAS_CUDA
#include "backends/cuda/cuda_bench.h"
#include "core/fused_kinds.h"
#include "experiments/cluster_bench.h"
#include "experiments/step_text.h"
#endif

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace sextant {

#ifdef SEXTANT_HAS_CUDA

namespace {

std::int64_t vocab_of(const AnyModel& model) {
  const auto* decoder = std::get_if<ModelConfig>(&model);
  return decoder != nullptr ? decoder->vocab : 1;
}

// "gpt2-medium:16x1024" on one device of the cluster.
BenchedStep step_of(const std::string& text, const Cluster& cluster, DType dtype) {
  const StepText step = parse_step(text);
  require(step.layers == 0, ErrorCode::kUsage,
          "--step '{}' has a number of layers: give it with "
          "the model, {}:layers={}",
          text, step.model, step.layers);
  PlannedJob planned;
  planned.job.model = load_any_model(step.model);
  planned.job.cluster = cluster;
  planned.job.global_batch = step.batch;
  planned.job.sequence = step.sequence;
  planned.job.dtype = dtype;
  const Strategy strategy =
      parse_strategy(fmt::format("dp=1 micro_batch={}", planned.job.global_batch));
  const LogicalGraph training = training_graph(planned.job, strategy);
  const TimingModels models = make_timing_models(cluster, dtype);
  return {
      .name = text,
      .graph = compile(training, strategy, planned.job.global_batch, *models.cost, *models.network),
      .id_limit = vocab_of(planned.job.model)};
}

void say(const Cluster& cluster, const std::string& path, const Console& console) {
  const DeviceKind& device = cluster.device;
  console.say(fmt::format("{}: copies {}, products at {:.0f} % of the peak, launch {}, kernel {}",
                          device.name, bandwidth_to_text(device.memory_bandwidth.value),
                          100 * device.matmul_efficiency.value,
                          to_text(duration_from_seconds(device.launch_overhead.value)),
                          to_text(duration_from_seconds(device.kernel_overhead.value))));
  console.say(fmt::format("{} kernels in {}; next: sextant simulate MODEL -c {}",
                          device.measured->kernels.size(), path, path));
}

}  // namespace

void run_cluster_bench(const ClusterBenchArguments& arguments, const CommonOptions& common,
                       Console& console) {
  require(!common.out.empty(), ErrorCode::kUsage, "--out FOLDER is needed: for cluster.json");
  require(!arguments.date.empty(), ErrorCode::kUsage,
          "--date is needed: the file says when it was measured");
  require_folder(common.out);
  const DType dtype = parse_dtype(arguments.dtype);
  Cluster base = load_cluster(arguments.base);
  CudaOptions options;
  options.tune_matmuls = true;
  options.matmul_cache = arguments.matmul_cache;
  CudaBench bench(options);
  std::erase_if(base.device.fused,
                [&bench](const std::string& kind) { return !bench.has_kernel(kind); });
  std::vector<BenchedStep> steps;
  for (const std::string& step : arguments.steps) steps.push_back(step_of(step, base, dtype));
  ClusterBenchOptions bench_options;
  bench_options.dtype = dtype;
  bench_options.date = arguments.date;
  bench_options.say = [&console](const std::string& line) { console.say(line); };
  const Cluster measured = measure_cluster(bench, base, steps, bench_options);
  const std::string path = common.out + "/cluster.json";
  write_file_whole(path, to_json_text(measured));
  say(measured, path, console);
  console.document(
      "cluster_bench",
      {{"file", path}, {"cluster", nlohmann::ordered_json::parse(to_json_text(measured))}});
}

#else

void run_cluster_bench(const ClusterBenchArguments&, const CommonOptions&, Console&) {
  fail(ErrorCode::kDevice, "this build has no CUDA: cluster bench measures a GPU");
}

#endif

}  // namespace sextant
