// Options of the two backends, checked before anything is compiled.
#include "cli/training/run_backend.h"

#include "actor/runtime.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/ranks/rank_placement.h"
#include "cli/gpu_list.h"
#include "core/base/check.h"
#include "core/base/machine_memory.h"
#include "core/text/counted_text.h"

#include <algorithm>
#include <cmath>

#ifdef SEXTANT_HAS_CUDA
#include "backends/cuda/cuda_backend.h"
#endif

namespace sextant {
namespace {

CpuQueueKind parse_queues(const std::string& text) {
  if (text == "inline") return CpuQueueKind::kInline;
  if (text == "asynchronous") return CpuQueueKind::kAsynchronous;
  require(text == "stress", ErrorCode::kUsage,
          "--queues '{}' is not one of inline, asynchronous, stress", text);
  return CpuQueueKind::kStress;
}

CpuKernels parse_kernels(const std::string& text) {
  require(text == "fast" || text == "reference", ErrorCode::kUsage,
          "--kernels '{}' is not one of fast, reference", text);
  return text == "fast" ? CpuKernels::kFast : CpuKernels::kReference;
}

void require_timeout(const RunArguments& arguments) {
  constexpr double kLongest_s = 86'400;
  require(arguments.timeout_s > 0 && arguments.timeout_s <= kLongest_s, ErrorCode::kUsage,
          "--timeout {} is not between 0 and {} seconds", arguments.timeout_s, kLongest_s);
}

std::int64_t timeout_ms(const RunArguments& arguments) {
  return std::max<std::int64_t>(1, std::llround(1e3 * arguments.timeout_s));
}

CpuOptions cpu_options(const RunArguments& arguments) {
  CpuOptions options;
  options.queues = parse_queues(arguments.queues.empty() ? kDefaultQueues : arguments.queues);
  options.kernels = parse_kernels(arguments.kernels.empty() ? kDefaultKernels : arguments.kernels);
  options.rendezvous_timeout_ms = timeout_ms(arguments);
  return options;
}

class CpuRanks final : public RunDevices {
 public:
  CpuRanks(const PhysicalGraph& graph, const CpuOptions& options,
           const std::optional<RankProcesses>& processes)
      : world_(graph, options, processes) {}
  std::vector<Device*> devices() override { return world_.devices(); }
  void abort(const std::string& reason) override { world_.abort(reason); }
  std::optional<std::int64_t> finished_launches() const override {
    return world_.finished_launches();
  }
  std::optional<Time> now() const override { return world_.now(); }
  std::vector<std::string> stuck() const override { return world_.stuck(); }

 private:
  CpuWorld world_;
};

#ifdef SEXTANT_HAS_CUDA
class GpuRanks final : public RunDevices {
 public:
  GpuRanks(const PhysicalGraph& graph, const CudaWorldOptions& options,
           const std::optional<RankProcesses>& processes)
      : world_(graph, options, processes) {}
  std::vector<Device*> devices() override { return world_.devices(); }
  void abort(const std::string& reason) override { world_.abort(reason); }

 private:
  CudaWorld world_;
};
#endif

void require_graphs(const std::string& text) {
  require(text.empty() || text == "on" || text == "off", ErrorCode::kUsage,
          "--graphs '{}' is not one of on, off", text);
}

constexpr std::int64_t kMostRanksPerGpu = 1024;

void require_gpu_placement(const RunArguments& arguments) {
  parse_gpus(arguments.gpus);
  const std::string& collectives = arguments.collectives;
  require(collectives.empty() || collectives == "nccl" || collectives == "local", ErrorCode::kUsage,
          "--collectives '{}' is not one of nccl, local", collectives);
  const std::int64_t each = arguments.ranks_per_gpu.value_or(1);
  require(each >= 1 && each <= kMostRanksPerGpu, ErrorCode::kUsage,
          "--ranks-per-gpu {} is not between 1 and {}", each, kMostRanksPerGpu);
  require(collectives != "nccl" || each == 1, ErrorCode::kUsage,
          "--collectives nccl with --ranks-per-gpu {}: NCCL wants a card for each rank; ranks that "
          "share one have --collectives local",
          each);
}

void require_cpu_options(const RunArguments& arguments) {
  cpu_options(arguments);
  require(arguments.graphs.empty(), ErrorCode::kUsage,
          "--graphs {}: CUDA graphs belong to --backend cuda", arguments.graphs);
  require(arguments.matmul_cache.empty(), ErrorCode::kUsage,
          "--matmul-cache {}: the option belongs to --backend cuda", arguments.matmul_cache);
  require(arguments.gpus.empty() && arguments.collectives.empty() && !arguments.ranks_per_gpu,
          ErrorCode::kUsage,
          "--gpus, --ranks-per-gpu and --collectives belong to --backend cuda: CPU ranks are "
          "threads of this process");
  require(!arguments.deterministic, ErrorCode::kUsage,
          "--deterministic belongs to --backend cuda: CPU ranks give the same bits in every run");
}

void require_cuda_options(const RunArguments& arguments) {
  require(arguments.record.empty(), ErrorCode::kUsage,
          "--record {}: only CPU ranks are recorded in this version", arguments.record);
  require_graphs(arguments.graphs);
  require_gpu_placement(arguments);
  require(arguments.queues.empty(), ErrorCode::kUsage,
          "--queues {}: queues of a GPU are its streams; the option belongs to --backend cpu",
          arguments.queues);
  require(arguments.kernels.empty(), ErrorCode::kUsage,
          "--kernels {}: a GPU has one set of kernels; the option belongs to --backend cpu",
          arguments.kernels);
#ifdef SEXTANT_HAS_CUDA
  const std::string reason = why_no_cuda_device();
  require(reason.empty(), ErrorCode::kDevice, "no usable GPU: {}", reason);
#else
  fail(ErrorCode::kDevice,
       "this build has no CUDA (switched off, or nvcc was not found, when it was configured): "
       "--backend cuda needs "
       "it");
#endif
}

#ifdef SEXTANT_HAS_CUDA
CudaWorldOptions world_options(const RunArguments& arguments) {
  CudaWorldOptions options;
  options.each.deterministic = arguments.deterministic;
  options.each.graphs = arguments.graphs != "off";
  options.graphs_of_several = arguments.graphs == "on";
  options.each.tune_matmuls = !arguments.deterministic;
  options.each.matmul_cache = arguments.matmul_cache;
  options.gpus = parse_gpus(arguments.gpus);
  options.ranks_per_gpu = static_cast<int>(arguments.ranks_per_gpu.value_or(1));
  if (arguments.collectives == "nccl") options.collectives = CudaCollectives::kNccl;
  if (arguments.collectives == "local") options.collectives = CudaCollectives::kLocal;
  options.timeout_ms = timeout_ms(arguments);
  return options;
}
#endif

}  // namespace

void require_backend(const RunArguments& arguments, bool are_several_processes) {
  require(arguments.backend == "cpu" || arguments.backend == "cuda", ErrorCode::kUsage,
          "--backend '{}' is not one of cpu, cuda", arguments.backend);
  require_timeout(arguments);
  if (arguments.backend == "cpu")
    require_cpu_options(arguments);
  else
    require_cuda_options(arguments);
  if (are_several_processes && arguments.collectives == "local") refuse_local_over_processes();
}

std::vector<CommonFact> common_facts_of_devices(const RunArguments& arguments) {
  std::vector<CommonFact> facts{
      {"backend", arguments.backend, ErrorCode::kUsage},
      {"options of the backend",
       fmt::format(
           "--graphs {} --ranks-per-gpu {}{}", arguments.graphs.empty() ? "off" : arguments.graphs,
           arguments.ranks_per_gpu.value_or(1), arguments.deterministic ? " --deterministic" : ""),
       ErrorCode::kUsage}};
#ifdef SEXTANT_HAS_CUDA
  if (arguments.backend == "cuda") {
    const std::vector<int> gpus = parse_gpus(arguments.gpus);
    facts.push_back({"NCCL", nccl_version(), ErrorCode::kDevice});
    facts.push_back({"GPU", cuda_device_name(gpus.empty() ? 0 : gpus.front()), ErrorCode::kDevice});
  }
#endif
  return facts;
}

std::string devices_text(const RunArguments& arguments, std::int64_t ranks) {
#ifdef SEXTANT_HAS_CUDA
  if (arguments.backend == "cuda") {
    const std::vector<int> gpus = parse_gpus(arguments.gpus);
    const std::string name = cuda_device_name(gpus.empty() ? 0 : gpus.front());
    if (ranks == 1) return name;
    const std::int64_t each = arguments.ranks_per_gpu.value_or(1);
    return fmt::format("{} ranks on {} x {}", ranks, (ranks + each - 1) / each, name);
  }
#endif
  static_cast<void>(arguments);
  return counted(ranks, "CPU rank");
}

bool exchanges_locally(const RunArguments& arguments, std::int64_t ranks,
                       bool are_several_processes) {
#ifdef SEXTANT_HAS_CUDA
  if (arguments.backend == "cuda" && ranks > 1 && !are_several_processes)
    return collectives_of(static_cast<std::size_t>(ranks), world_options(arguments)) ==
           CudaCollectives::kLocal;
#endif
  static_cast<void>(arguments);
  static_cast<void>(ranks);
  static_cast<void>(are_several_processes);
  return false;
}

std::unique_ptr<RunDevices> make_run_devices(const PhysicalGraph& graph,
                                             const RunArguments& arguments, std::uint64_t seed,
                                             bool profile, const RunListeners& listeners,
                                             const RunProcesses& processes) {
#ifdef SEXTANT_HAS_CUDA
  if (arguments.backend == "cuda") {
    CudaWorldOptions options = world_options(arguments);
    options.each.seed = seed;
    options.each.profile = profile;
    options.each.notice = listeners.notice;
    options.give_up = listeners.give_up;
    return std::make_unique<GpuRanks>(graph, options, processes.of_ranks());
  }
#endif
  static_cast<void>(listeners);
  CpuOptions options = cpu_options(arguments);
  options.seed = seed;
  options.profile = profile;
  if (processes.are_several()) options.memory = processes.share(machine_memory().available);
  return std::make_unique<CpuRanks>(graph, options, processes.of_ranks());
}

std::optional<ArenaRoom> room_for_arenas(const Cluster& planned, const RunArguments& arguments) {
  if (arguments.backend != "cpu") return std::nullopt;
  ArenaRoom room = arena_room(planned);
  // Kernels, data and others need memory as well.
  const Bytes available = machine_memory().available;
  room.capacity = std::min(
      room.capacity, Bytes(available.value / 2 / std::max<std::int64_t>(planned.num_devices(), 1)));
  return room;
}

Bytes room_for_data(const PhysicalGraph& graph, const RunArguments& arguments) {
  Bytes left = machine_memory().available;
  for (std::size_t rank = 0; arguments.backend == "cpu" && rank < graph.ranks.size(); ++rank)
    left -= std::min(left, graph.program_of(Rank(rank)).arena.size);
  return Bytes(left.value / 2);
}

}  // namespace sextant
