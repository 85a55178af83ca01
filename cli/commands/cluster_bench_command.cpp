// `sextant cluster bench`: a cluster file with what this machine's GPU, or its CPU, was measured to
// do.
#include "backends/cpu/machine_load.h"
#include "cli/dry_run.h"
#include "cli/gpu_list.h"
#include "cli/runs/planned_device.h"
#include "cli/verb.h"
#include "cli/verbs.h"
#include "core/base/check.h"
#include "core/text/counted_text.h"
#include "experiments/cpu_cluster_bench.h"
#include "experiments/step_text.h"
#include "simulator/cluster_files/cluster_file.h"
#include "simulator/costs/models.h"

#ifdef SEXTANT_HAS_CUDA
#include "backends/cuda/machine/cuda_bench.h"
#include "backends/cuda/machine/cuda_link_bench.h"
#include "backends/cuda/machine/cuda_topology.h"
#include "experiments/cluster_bench.h"
#include "experiments/link_measurement.h"
#endif

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <ctime>
#include <memory>
#include <optional>
#include <utility>

namespace sextant {
namespace {

struct ClusterBenchArguments {
  std::string backend = "cuda";    // or cpu
  std::string base;                // what is not measured; empty: dgx-h100:nodes=1, or cpu
  std::string dtype;               // empty: bf16, of a CPU f32
  std::string date;                // of the measurement; empty: today
  std::string output;              // file; empty: cluster.json in the folder for results
  std::vector<std::string> steps;  // "gpt2-medium:16x1024": training steps to measure launches of
  std::string matmul_cache;        // file
  std::string gpus;                // "0,1", the first measured as a device; empty: all
};

// Kernels of all kinds that decoders have, small and middling: what a model that was not asked for
// lies between.
const std::vector<std::string> kUsualSteps = {
    "gpt:layers=1,hidden=64,heads=2,vocab=256,seq=64:2x64",
    "gpt:layers=1,hidden=256,heads=4,vocab=2048,seq=128:2x128",
    "llama:layers=1,hidden=384,heads=6,vocab=4096,seq=256:1x256"};
// Whole steps of all ranks, with kernels of the above: the model, and a rank's samples.
struct SharedStep {
  const char* model;
  std::int64_t samples;
  const char* strategy;
};
constexpr SharedStep kSharedSteps[] = {
    {"gpt:layers=1,hidden=256,heads=4,vocab=2048,seq=128", 2, "zero=2"},
    {"gpt:layers=2,hidden=256,heads=4,vocab=2048,seq=128", 2, "zero=0"}};
constexpr const char* kTinyModel = "gpt:layers=4,hidden=8,heads=1,vocab=8,seq=4";
constexpr std::int64_t kTinyMicroBatches = 4;

std::int64_t vocab_of(const AnyModel& model) {
  const auto* decoder = std::get_if<ModelConfig>(&model);
  return decoder != nullptr ? decoder->vocab : 1;
}

PhysicalGraph compiled(const Job& job, const Strategy& strategy) {
  const TimingModels models = make_timing_models(job.cluster, job.dtype);
  return compile(training_graph(job, strategy), strategy, job.global_batch, *models.cost,
                 *models.network);
}

// "gpt2-medium:16x1024" on one device of the cluster.
BenchedStep step_of(const std::string& text, const Cluster& cluster, DType dtype) {
  const StepText step = parse_step(text);
  require(step.layers == 0, ErrorCode::kUsage,
          "--step '{}' has a number of layers: give it with "
          "the model, {}:layers={}",
          text, step.model, step.layers);
  Job job;
  job.model = load_any_model(step.model);
  job.cluster = cluster;
  job.global_batch = step.batch;
  job.sequence = step.sequence;
  job.dtype = dtype;
  require_sequence(job.model, job.sequence);
  return {
      .name = text,
      .graph = compiled(job, parse_strategy(fmt::format("dp=1 micro_batch={}", job.global_batch))),
      .id_limit = vocab_of(job.model)};
}

std::vector<BenchedStep> steps_of(const std::vector<std::string>& texts, const Cluster& cluster,
                                  DType dtype) {
  std::vector<BenchedStep> steps;
  for (const std::string& text : texts) steps.push_back(step_of(text, cluster, dtype));
  return steps;
}

std::string date_of(const ClusterBenchArguments& arguments) {
  if (!arguments.date.empty()) return arguments.date;
  const std::time_t now = std::time(nullptr);
  std::tm day{};
  gmtime_r(&now, &day);
  return fmt::format("{:04}-{:02}-{:02}", 1900 + day.tm_year, 1 + day.tm_mon, day.tm_mday);
}

std::string path_of(const ClusterBenchArguments& arguments, const CommonOptions& common) {
  require(arguments.output.empty() != common.out.empty(), ErrorCode::kUsage,
          "{}: -o FILE, or --out FOLDER for its cluster.json",
          arguments.output.empty() ? "nowhere to write to" : "two places to write to");
  std::string path = arguments.output;
  if (path.empty()) {
    require_results_folder(common, {"cluster.json"});
    path = common.out + "/cluster.json";
  }
  require_different_files({{"--base", arguments.base},
                           {"--matmul-cache", arguments.matmul_cache},
                           {"the measured cluster", path}});
  require_writable(arguments.output.empty() ? "--out" : "--output", path);
  return path;
}

void write(const Cluster& cluster, const std::string& path, Console& console) {
  write_file_whole(path, to_json_text(cluster));
  const DeviceKind& device = cluster.device;
  console.say(fmt::format(
      "{}: copies {}, products at {:.0f} % of the peak, launch {}, kernel {}", device.name,
      bandwidth_to_text(device.memory_bandwidth.value * device.memory_efficiency.value),
      100 * device.matmul_efficiency.value,
      to_text(duration_from_seconds(device.launch_overhead.value)),
      to_text(duration_from_seconds(device.kernel_overhead.value))));
  console.say(fmt::format("{} in {}; next: sextant simulate MODEL -c {}",
                          counted(device.measured->kernels.size(), "kernel"), path, path));
}

nlohmann::ordered_json document_of(const Cluster& cluster, const std::string& path) {
  return {{"file", path}, {"cluster", nlohmann::ordered_json::parse(to_json_text(cluster))}};
}

// A step on all ranks whose kernels take next to nothing.
PhysicalGraph step_of_launches(const Cluster& cluster) {
  Job job;
  job.model = load_any_model(kTinyModel);
  job.cluster = cluster;
  job.sequence = default_sequence(job.model);
  job.global_batch = cluster.num_devices() * kTinyMicroBatches;
  return compiled(job, parse_strategy(fmt::format("dp={} micro_batch=1", cluster.num_devices())));
}

WholeStep whole_step(const SharedStep& shared, const Cluster& cluster, DType dtype) {
  Job job;
  job.model = load_any_model(shared.model);
  job.cluster = cluster;
  job.sequence = default_sequence(job.model);
  job.global_batch = cluster.num_devices() * shared.samples;
  job.dtype = dtype;
  const std::string strategy =
      fmt::format("dp={} micro_batch={} {}", cluster.num_devices(), shared.samples,
                  cluster.num_devices() > 1 ? shared.strategy : "");
  return {shared.model, compiled(job, parse_strategy(strategy))};
}

// Those that the memory of the cluster has room for.
std::vector<WholeStep> whole_steps(const Cluster& cluster, DType dtype) {
  std::vector<WholeStep> steps;
  for (const SharedStep& shared : kSharedSteps) {
    try {
      steps.push_back(whole_step(shared, cluster, dtype));
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kInfeasible) throw;
    }
  }
  return steps;
}

// How many cores they share is the machine's to say.
Cluster cpu_base(const ClusterBenchArguments& arguments) {
  const Cluster base = load_cluster(arguments.base.empty() ? "cpu" : arguments.base);
  require(base.nodes == 1 && base.other_devices.empty(), ErrorCode::kUsage,
          "--base {} has {} nodes: ranks of a CPU are on one, as of cpu:ranks=4", arguments.base,
          base.nodes);
  // The ranks, their memory and the links of a GPU machine are not those of this one's CPU.
  require(is_planned_device("cpu", base.device, {}), ErrorCode::kUsage,
          "--base {} has devices {}: ranks of a CPU are those of cpu:ranks=4", arguments.base,
          base.device.name);
  return base;
}

void bench_cpu(const ClusterBenchArguments& arguments, const CommonOptions& common,
               Console& console) {
  require(arguments.matmul_cache.empty(), ErrorCode::kUsage,
          "--matmul-cache {}: the option belongs to --backend cuda", arguments.matmul_cache);
  require(arguments.gpus.empty(), ErrorCode::kUsage,
          "--gpus {}: the option belongs to --backend cuda", arguments.gpus);
  const std::string path = path_of(arguments, common);
  const DType dtype = parse_dtype(arguments.dtype.empty() ? "f32" : arguments.dtype);
  const Cluster base = cpu_base(arguments);
  std::vector<std::string> texts = kUsualSteps;
  texts.insert(texts.end(), arguments.steps.begin(), arguments.steps.end());
  const std::vector<BenchedStep> steps = steps_of(texts, base, dtype);
  if (common.dry_run)
    return say_dry_run("cluster_bench",
                       fmt::format("measure this CPU with {}", counted(base.num_devices(), "rank")),
                       {path}, console);
  const PhysicalGraph launches = step_of_launches(base);
  const LoadWatch watch;
  CpuBench bench({.ranks = base.num_devices(), .cores = usable_cores()});
  const Cluster measured = measure_cpu_cluster(
      bench, base, launches, steps, whole_steps(base, dtype),
      {.dtype = dtype, .date = date_of(arguments), .say = [&console](const std::string& line) {
         console.progress(line);
       }});
  console.end_progress();
  write(measured, path, console);
  nlohmann::ordered_json document = document_of(measured, path);
  if (const auto load = watch.load()) {
    document["others_share"] = load->others;
    if (!load->is_quiet())
      console.say(busy_text(*load) + " meanwhile: figures of a quiet one may be better");
  }
  console.document("cluster_bench", document);
}

#ifdef SEXTANT_HAS_CUDA

// Steps that a GPU's bench measures unasked: heads of 64 and 128, layer and RMS norms, shared
// key/value heads, experts, convolutions; sizes between those of models that one meets.
const std::vector<std::string> kUsualGpuSteps = {
    "gpt:layers=1,hidden=1536,heads=24,vocab=32768,seq=1024:4x1024",
    "gpt:layers=1,hidden=2304,heads=36,vocab=65536,seq=1024:12x1024",
    "llama:layers=1,hidden=1536,heads=24,kv_heads=8,ffn=6144,vocab=65536,seq=2048:4x2048",
    "llama:layers=1,hidden=3584,heads=28,kv_heads=4,ffn=9728,vocab=98304,seq=4096:3x4096",
    "llama:layers=1,hidden=2560,heads=40,vocab=32768,seq=8192:2x8192",
    "llama:layers=1,hidden=2560,heads=20,kv_heads=4,ffn=6144,vocab=32768,seq=2048,experts=8,top_k="
    "2,"
    "capacity_factor=1.25:4x2048",
    "resnet18:128x1"};

std::vector<int> benched_gpus(const ClusterBenchArguments& arguments) {
  std::vector<int> gpus = parse_gpus(arguments.gpus);
  const int count = num_cuda_devices();
  require(count > 0, ErrorCode::kDevice, "no GPU to measure: {}", why_no_cuda_device());
  for (const int gpu : gpus)
    require(gpu < count, ErrorCode::kUsage, "--gpus {}: GPU {} of {}", arguments.gpus, gpu, count);
  for (int gpu = 0; arguments.gpus.empty() && gpu < count; ++gpu) gpus.push_back(gpu);
  return gpus;
}

std::string setting_text(const LinkSetting& setting) {
  return (setting.blocks == 0 ? "any blocks" : counted(setting.blocks, "block")) +
         (setting.is_registered ? ", registered" : "");
}

std::string microseconds(double seconds) { return fmt::format("{:.4g}", 1e6 * seconds); }

// A row per primitive and setting, a column per size; microseconds.
TextTable link_table(const LinkMeasurement& links) {
  std::vector<std::string> header = {"us", "setting"};
  std::vector<std::vector<std::string>> rows;
  for (const LinkPoint& point : links.points) {
    const std::string name(to_string(point.primitive)), setting = setting_text(point.setting);
    if (rows.empty() || rows.back()[0] != name || rows.back()[1] != setting)
      rows.push_back({name, setting});
    if (rows.size() == 1) header.push_back(to_text(point.global_bytes));
    rows.back().push_back(microseconds(point.seconds));
  }
  TextTable table(header);
  for (std::vector<std::string>& row : rows) table.add(std::move(row));
  return table;
}

TextTable company_table(const std::vector<LinkCompany>& companies) {
  TextTable table({"beside each other", "alone", "beside", "alone", "beside", "slower"});
  for (const LinkCompany& company : companies) {
    const BesideTiming& timing = company.timing;
    table.add({fmt::format("{}, {} of {}", company.kernel, to_string(company.primitive),
                           to_text(company.global_bytes)),
               microseconds(timing.kernel_alone_s), microseconds(timing.kernel_beside_s),
               microseconds(timing.link_alone_s), microseconds(timing.link_beside_s),
               fmt::format("{:+.0f} %, {:+.0f} %",
                           100 * (timing.kernel_beside_s / timing.kernel_alone_s - 1),
                           100 * (timing.link_beside_s / timing.link_alone_s - 1))});
  }
  return table;
}

nlohmann::ordered_json links_json(const LinkMeasurement& links) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const LinkPoint& point : links.points)
    points.push_back({{"primitive", to_string(point.primitive)},
                      {"blocks", point.setting.blocks},
                      {"registered", point.setting.is_registered},
                      {"bytes", point.global_bytes.value},
                      {"seconds", point.seconds}});
  nlohmann::ordered_json companies = nlohmann::ordered_json::array();
  for (const LinkCompany& company : links.companies)
    companies.push_back({{"kernel", company.kernel},
                         {"primitive", to_string(company.primitive)},
                         {"bytes", company.global_bytes.value},
                         {"kernel_alone_s", company.timing.kernel_alone_s},
                         {"kernel_beside_s", company.timing.kernel_beside_s},
                         {"link_alone_s", company.timing.link_alone_s},
                         {"link_beside_s", company.timing.link_beside_s}});
  return {{"points", std::move(points)}, {"beside", std::move(companies)}};
}

// Of the cards of this machine, which are then the cluster.
LinkMeasurement bench_links(const std::vector<int>& gpus, const CudaOptions& each,
                            const std::string& source, Cluster& measured, Console& console) {
  LinkMeasurementOptions options;
  // What `run` does not ask for, to see what it would gain.
  options.settings = {{.blocks = 8, .is_registered = false},
                      {.blocks = 0, .is_registered = false},
                      {.blocks = 16, .is_registered = true}};
  options.say = [&console](const std::string& line) { console.say(line); };
  CudaLinkBench bench(gpus, each, options.most);
  LinkMeasurement links = measure_links(bench, options);
  const FittedLink fitted = fit_link(measured.intra_node, bench, links, source);
  if (measured.nodes > 1)
    console.note(fmt::format("the file is one node of the {} that were measured; the base has {}",
                             counted(bench.ranks(), "GPU"), counted(measured.nodes, "node")));
  measured.nodes = 1;
  measured.devices_per_node = bench.ranks();
  measured.outer_tiers.clear();
  measured.other_devices.clear();
  measured.intra_node = fitted.link;
  set_company(links.companies, source, measured.device);
  console.say(link_table(links).text());
  if (!links.companies.empty()) console.say(company_table(links.companies).text());
  console.say(fmt::format("{} between {}; lines are {:.0f} % at worst from what was measured",
                          bandwidth_to_text(fitted.link.bandwidth.value),
                          counted(bench.ranks(), "GPU"), 100 * fitted.worst));
  return links;
}

Cluster bench_kernels(const ClusterBenchArguments& arguments, const CudaOptions& options,
                      Cluster base, Console& console) {
  const DType dtype = parse_dtype(arguments.dtype.empty() ? "bf16" : arguments.dtype);
  CudaBench bench(options);
  std::erase_if(base.device.fused,
                [&bench](const std::string& kind) { return !bench.has_kernel(kind); });
  ClusterBenchOptions bench_options;
  bench_options.dtype = dtype;
  bench_options.date = date_of(arguments);
  bench_options.say = [&console](const std::string& line) { console.say(line); };
  std::vector<std::string> texts = kUsualGpuSteps;
  texts.insert(texts.end(), arguments.steps.begin(), arguments.steps.end());
  return measure_cluster(bench, base, steps_of(texts, base, dtype), bench_options);
}

void bench_cuda(const ClusterBenchArguments& arguments, const CommonOptions& common,
                Console& console) {
  const std::string path = path_of(arguments, common);
  const std::vector<int> gpus = benched_gpus(arguments);
  const Cluster base = load_cluster(arguments.base.empty() ? "dgx-h100:nodes=1" : arguments.base);
  if (common.dry_run)
    return say_dry_run("cluster_bench", fmt::format("measure {}", counted(gpus.size(), "GPU")),
                       {path}, console);
  CudaOptions options;
  options.device = gpus.front();
  options.tune_matmuls = true;
  options.matmul_cache = arguments.matmul_cache;
  Cluster measured = bench_kernels(arguments, options, base, console);
  std::optional<LinkMeasurement> links;
  if (gpus.size() > 1 && nccl_version_text().empty())
    console.note("links are not measured: this build has no NCCL");
  else if (gpus.size() > 1) {
    // Kernels took minutes: they are kept whatever becomes of the links.
    write_file_whole(path, to_json_text(measured));
    links = bench_links(gpus, options,
                        fmt::format("cluster bench on {} x {}, NCCL {}, {}", gpus.size(),
                                    measured.device.name, nccl_version_text(), date_of(arguments)),
                        measured, console);
  }
  write(measured, path, console);
  nlohmann::ordered_json document = document_of(measured, path);
  if (links) document["links"] = links_json(*links);
  console.document("cluster_bench", document);
}

#else

void bench_cuda(const ClusterBenchArguments&, const CommonOptions&, Console&) {
  fail(ErrorCode::kDevice,
       "this build has no CUDA: `cluster bench` measures a GPU, `cluster bench --backend cpu` the "
       "CPU");
}

#endif

void run_cluster_bench(const ClusterBenchArguments& arguments, const CommonOptions& common,
                       Console& console) {
  require(arguments.backend == "cpu" || arguments.backend == "cuda", ErrorCode::kUsage,
          "--backend '{}' is not one of cpu, cuda", arguments.backend);
  if (arguments.backend == "cpu")
    bench_cpu(arguments, common, console);
  else
    bench_cuda(arguments, common, console);
}

}  // namespace

Verb cluster_bench_verb() {
  const auto arguments = std::make_shared<ClusterBenchArguments>();
  ClusterBenchArguments& a = *arguments;
  return {
      .path = "cluster bench",
      .text = "Measure this machine's GPUs or CPU: a cluster file",
      .examples =
          "Examples:\n  sextant cluster bench --step gpt2-medium:16x1024 -o h200.json\n"
          "  sextant cluster bench --base hgx-h200:nodes=1 --gpus 0,1 -o two.json\n"
          "  sextant cluster bench --backend cpu --base cpu:ranks=4 -o here.json",
      .options =
          {
              {"--backend", &a.backend, "cuda (default) or cpu"},
              {"-o,--output", &a.output,
               "cluster file to write (or --out: a folder for cluster.json)"},
              {"--base", &a.base,
               "what is not measured: peaks, links, counts (dgx-h100:nodes=1; cpu: ranks and "
               "memory of cpu:ranks=4)"},
              {"--dtype", &a.dtype, "of products and tensors (bf16; cpu: f32)"},
              {"--date", &a.date, "when this is: goes into the file (today)"},
              {"--step", &a.steps,
               "MODEL:BATCHxSEQUENCE, a training step of one device whose launches to "
               "measure; repeatable"},
              {"--gpus", &a.gpus,
               "cuda: numbers of the GPUs, the first for kernels, all for links (default: all)"},
              {"--matmul-cache", &a.matmul_cache,
               "file that keeps which algorithms were measured to be fast"},
          },
      .action = [arguments](const CommonOptions& common,
                            Console& console) { run_cluster_bench(*arguments, common, console); },
      .writes_results = true,
      .has_dry_run = true};
}

}  // namespace sextant
