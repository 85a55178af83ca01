// The world of one job on GPUs: which rank is on which card, whether those of a card fit together,
// and in which order memory goes.
#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_agreements.h"
#include "actor/hosts/rank_threads.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/devices/cuda_device.h"
#include "backends/cuda/devices/last_resort.h"
#include "backends/cuda/local_exchange.h"
#include "backends/cuda/measured_choices.h"
#include "backends/cuda/nccl_exchange.h"
#include "backends/cuda/ranks/peer_progress.h"
#include "backends/cuda/ranks/rank_placement.h"
#include "core/base/check.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

namespace sextant {
namespace {

std::vector<int> cards_of_ranks(std::size_t ranks, const CudaWorldOptions& options) {
  const int count = num_cuda_devices();
  require(count > 0, ErrorCode::kDevice, "no usable GPU: {}", why_no_cuda_device());
  return gpus_of_ranks(ranks, usable_gpus(options.gpus, count), options.ranks_per_gpu);
}

// What a card is called by every process that sees it.
std::string card_name(int gpu) {
  cudaDeviceProp properties{};
  SEXTANT_CUDA(cudaGetDeviceProperties(&properties, gpu));
  std::string name = fmt::format("{} (", properties.name);
  for (const char byte : properties.uuid.bytes)
    name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name + ")";
}

std::vector<std::string> names_of(const std::vector<int>& gpus) {
  std::vector<std::string> names;
  for (const int gpu : gpus) names.push_back(card_name(gpu));
  return names;
}

// What every process sees, by process; names end in a line break on their way.
std::vector<ProcessCards> gathered_cards(const RankProcesses& processes,
                                         const std::vector<std::string>& own) {
  std::string text;
  for (const std::string& name : own) text += name + '\n';
  std::vector<ProcessCards> all;
  for (const HostBytes& bytes : processes.group.all_gather(host_bytes(text))) {
    ProcessCards& process = all.emplace_back();
    process.ranks = processes.blocks.size_of(Rank(all.size() - 1));
    const std::string names = host_text(bytes);
    for (std::size_t begin = 0; begin < names.size();) {
      const std::size_t end = names.find('\n', begin);
      process.cards.push_back(names.substr(begin, end - begin));
      begin = end + 1;
    }
  }
  return all;
}

// Kernels read the memory of every card.
void let_reach_each_other(const std::set<int>& gpus) {
  for (const int gpu : gpus)
    for (const int peer : gpus) {
      if (gpu == peer) continue;
      int can = 0;
      SEXTANT_CUDA(cudaDeviceCanAccessPeer(&can, gpu, peer));
      require(can != 0, ErrorCode::kDevice,
              "--collectives local: GPU {} cannot read the memory of GPU {}; --collectives nccl "
              "goes other ways",
              gpu, peer);
      SEXTANT_CUDA(cudaSetDevice(gpu));
      const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();
      else
        SEXTANT_CUDA(status);
    }
}

std::chrono::nanoseconds time_now() { return std::chrono::steady_clock::now().time_since_epoch(); }

struct RanksOnCards {
  std::vector<int> gpu_of_rank;  // -1: in another process
  CudaCollectives collectives;
};

// Which card each rank of this process is on. The same is refused in all processes.
RanksOnCards place_ranks(std::size_t ranks, const CudaWorldOptions& options,
                         const std::optional<RankProcesses>& processes,
                         std::span<const Rank> own_ranks) {
  if (!processes) {
    std::vector<int> gpu_of_rank = cards_of_ranks(ranks, options);
    const CudaCollectives collectives =
        collectives_for(options.collectives, gpu_of_rank, has_nccl());
    return {std::move(gpu_of_rank), collectives};
  }
  std::vector<int> usable;
  std::vector<std::string> names;
  agree_after(processes, [&] {
    require(num_cuda_devices() > 0, ErrorCode::kDevice, "no usable GPU: {}", why_no_cuda_device());
    usable = usable_gpus(options.gpus, num_cuda_devices());
    names = names_of(usable);
  });
  const std::vector<std::string> card_of_rank =
      cards_of_job(gathered_cards(*processes, names), options.ranks_per_gpu);
  std::vector<int> gpu_of_rank(ranks, -1);
  for (const Rank rank : own_ranks) {
    const auto found = std::find(names.begin(), names.end(), card_of_rank[rank.index()]);
    gpu_of_rank[rank.index()] = usable[static_cast<std::size_t>(found - names.begin())];
  }
  return {std::move(gpu_of_rank),
          collectives_over_processes(options.collectives, card_of_rank, has_nccl())};
}

// The first process of each program, in order: together they have all kernels of the job.
std::vector<Rank> leaders_of(const PhysicalGraph& graph,
                             const std::optional<RankProcesses>& processes) {
  if (!processes) return {Rank(0)};
  std::set<decltype(RankBinding::program)> programs;
  std::set<std::size_t> leaders;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank)
    if (programs.insert(graph.ranks[Rank(rank)].program).second)
      leaders.insert(processes->blocks.process_of(Rank(rank)).index());
  std::vector<Rank> ordered;
  for (const std::size_t leader : leaders) ordered.emplace_back(leader);
  return ordered;
}

// A rank without work never comes to the agreement on graphs.
bool can_all_replay(const PhysicalGraph& graph) {
  return std::all_of(graph.ranks.begin(), graph.ranks.end(), [&](const RankBinding& rank) {
    return !graph.programs[rank.program].order.empty();
  });
}

// What ranks of this process need on a card that they share, without what is free of it.
void require_room_on_card(int gpu, const std::vector<CudaRankMemory>& sharing) {
  std::size_t free = 0, total = 0;
  SEXTANT_CUDA(cudaSetDevice(gpu));
  SEXTANT_CUDA(cudaMemGetInfo(&free, &total));
  require_room(sharing, cuda_device_name(gpu), Bytes(static_cast<std::int64_t>(free)),
               Bytes(static_cast<std::int64_t>(total)));
}

// Of a job of several processes: which ranks are here, and how far the others have come. Borrows
// both.
std::optional<RanksElsewhere> ranks_elsewhere(const std::optional<RankProcesses>& processes,
                                              std::optional<PeerProgress>& peers) {
  if (!processes) return std::nullopt;
  return RanksElsewhere{.is_here = [&processes](Rank rank) { return processes->is_here(rank); },
                        .enqueued =
                            [&peers](Rank rank) {
                              return peers ? peers->of(rank)
                                           : std::optional<PeerProgress::Counts>();
                            }};
}

std::unique_ptr<CudaExchange> make_exchange(const PhysicalGraph& graph, CudaCollectives collectives,
                                            const CudaWorldOptions& options,
                                            std::optional<RanksElsewhere> elsewhere) {
  if (collectives == CudaCollectives::kLocal)
    return std::make_unique<LocalExchange>(graph, std::chrono::milliseconds(options.timeout_ms));
  return std::make_unique<NcclExchange>(graph, options.each.deterministic, std::move(elsewhere));
}

}  // namespace

CudaCollectives collectives_of(std::size_t ranks, const CudaWorldOptions& options) {
  return collectives_for(options.collectives, cards_of_ranks(ranks, options), has_nccl());
}

struct CudaWorld::Impl {
  Impl(const PhysicalGraph& graph, const CudaWorldOptions& given,
       const std::optional<RankProcesses>& given_processes)
      : options(given),
        processes(given_processes),
        own_ranks(ranks_here(graph.ranks.size(), processes)),
        agreements(graph.ranks.size(), given_processes),
        devices(graph.ranks.size()) {
    RanksOnCards placed = place_ranks(graph.ranks.size(), options, processes, own_ranks);
    gpu_of_rank = std::move(placed.gpu_of_rank);
    agree_after(processes, [&] { resolve(graph, placed.collectives); });
    try {
      prepare(graph);
    } catch (const std::exception& error) {
      // Others may wait for what does not come.
      if (processes && !is_agreed) agreements.abort(error.what());
      end();
      throw;
    }
  }

  ~Impl() { end(); }

  void resolve(const PhysicalGraph& graph, CudaCollectives collectives) {
    for (const Rank rank : own_ranks) gpus.insert(gpu_of_rank[rank.index()]);
    if (collectives == CudaCollectives::kLocal) let_reach_each_other(gpus);
    const bool are_several = graph.ranks.size() > 1;
    if (are_several)
      exchange = make_exchange(graph, collectives, options, ranks_elsewhere(processes, peers));
    if (are_several) watch.emplace(own_ranks, graph.ranks.size(), time_now);
    for (const Rank rank : own_ranks) {
      CudaOptions own = options.each;
      own.device = gpu_of_rank[rank.index()];
      if (are_several) {
        own.choices = choices;
        own.watch = &*watch;
        own.graphs = own.graphs && options.graphs_of_several && can_all_replay(graph);
      }
      std::unique_ptr<CudaDevice>& device = devices[rank.index()];
      device = std::make_unique<CudaDevice>(own, exchange.get(),
                                            std::chrono::milliseconds(options.timeout_ms));
      device->resolve(graph, rank);
    }
    for (const int gpu : gpus)
      if (!options.each.host_visible) require_room_on_card(gpu, memory_on(gpu));
  }

  void prepare(const PhysicalGraph& graph) {
    if (exchange)
      last_resort.emplace(
          *exchange, *watch, [this](const std::string& late) { abort(late); }, options.give_up);
    if (processes && exchange)
      peers.emplace(
          *processes, [this](Rank rank) { return exchange->enqueued(rank); },
          [this](const std::string& reason) { abort(reason); });
    const std::vector<Rank> leaders = leaders_of(graph, processes);
    on_own_ranks([&](CudaDevice& device, HostAgreement& group) {
      group.agree_after([&] { device.allocate(); });
      make_kernels(device, group, leaders);
    });
    connect();
  }

  // What all ranks of the job agree on: where it throws, it throws the same on all, and nobody is
  // aborted.
  void on_own_ranks(const std::function<void(CudaDevice&, HostAgreement&)>& act) {
    std::mutex mutex;
    std::optional<Error> agreed;
    on_rank_threads(own_ranks.size(), [&](std::size_t own) {
      try {
        act(*devices[own_ranks[own].index()], agreements.of(own_ranks[own]));
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        if (!agreed) agreed = error;
      }
    });
    is_agreed = agreed.has_value();
    if (agreed) throw Error(*agreed);
  }

  std::chrono::milliseconds patience() const {
    return options.each.patience(std::chrono::milliseconds(options.timeout_ms));
  }
  // What a rank does at last before it is joined.
  void wait_for_others(Rank rank, std::string_view what) {
    if (watch) watch->enter(rank, what, patience());
  }
  void have_come() {
    for (const Rank rank : own_ranks)
      if (watch) watch->leave(rank);
  }

  // Whoever fails while ranks connect ends the others by an abort.
  void connect() {
    try {
      on_rank_threads(
          own_ranks.size(),
          [&](std::size_t own) {
            CudaDevice& device = *devices[own_ranks[own].index()];
            device.connect(agreements.of(own_ranks[own]));
            device.fill();
            wait_for_others(own_ranks[own], "connecting");
          },
          [&](const std::string& reason) { abort(reason); });
      have_come();
    } catch (const Error& error) {
      if (!processes) throw;
      fail(ErrorCode::kRankFailed, "{} ({})", error.what(),
           processes->group.name_of(processes->group.rank()));
    }
  }

  // Leaders measure one after another and tell all others. What nobody has measured by then, of
  // shapes that only some ranks of a program have, is left to heuristics, which are one for all.
  void make_kernels(CudaDevice& device, HostAgreement& group, const std::vector<Rank>& leaders) {
    const Rank own = processes ? processes->group.rank() : Rank(0);
    for (const Rank leader : leaders) {
      {
        const AgreementWatch::Wait meeting(leader != own && watch ? &*watch : nullptr, group.rank(),
                                           "with kernels of others", patience());
        group.agree_after([&] {
          if (leader == own) device.make_kernels();
        });
      }
      if (!processes) return;
      const Rank root = processes->blocks.first_of(leader);
      const HostBytes found =
          group.broadcast(group.rank() == root ? choices->to_bytes() : HostBytes(), root);
      if (leader != own) choices->add(found);
    }
    choices->complete();
    group.agree_after([&] {
      if (std::find(leaders.begin(), leaders.end(), own) == leaders.end()) device.make_kernels();
    });
  }

  // Memory of one rank may be read by the kernels of another: all end before any memory goes.
  void end() {
    for (const int gpu : gpus) {
      cudaSetDevice(gpu);
      cudaDeviceSynchronize();
    }
    for (const Rank rank : own_ranks)
      if (devices[rank.index()]) devices[rank.index()]->drop_graph();
    if (exchange) close();
    peers.reset();
  }

  void close() {
    try {
      on_rank_threads(
          own_ranks.size(),
          [&](std::size_t own) {
            if (const auto& device = devices[own_ranks[own].index()]) device->close();
            wait_for_others(own_ranks[own], "closing");
          },
          [](const std::string&) {});
      have_come();
    } catch (const Error&) {
      // Nothing of the job is left to be told.
    }
  }

  // Of each own rank on the card.
  std::vector<CudaRankMemory> memory_on(int gpu) const {
    std::vector<CudaRankMemory> sharing;
    for (const Rank rank : own_ranks)
      if (gpu_of_rank[rank.index()] == gpu)
        sharing.push_back(devices[rank.index()]->memory_needed());
    return sharing;
  }

  void abort(const std::string& reason) {
    agreements.abort(reason);
    for (const auto& device : devices)
      if (device) device->abort(reason);
  }

  const CudaWorldOptions options;
  const std::optional<RankProcesses> processes;
  const std::vector<Rank> own_ranks;
  std::vector<int> gpu_of_rank;  // -1: in another process
  std::set<int> gpus;            // of the own ranks
  RankAgreements agreements;
  const std::shared_ptr<MeasuredChoices> choices = std::make_shared<MeasuredChoices>();
  std::unique_ptr<CudaExchange> exchange;            // of several ranks
  std::optional<AgreementWatch> watch;               // likewise
  std::vector<std::unique_ptr<CudaDevice>> devices;  // by rank; nullptr: in another process
  bool is_agreed = false;  // the error that is thrown is that of all ranks
  std::optional<LastResort> last_resort;
  std::optional<PeerProgress> peers;  // of several processes
};

CudaWorld::CudaWorld(const PhysicalGraph& graph, const CudaWorldOptions& options,
                     const std::optional<RankProcesses>& processes)
    : impl_(std::make_unique<Impl>(graph, options, processes)) {}

CudaWorld::~CudaWorld() = default;

std::vector<Device*> CudaWorld::devices() {
  std::vector<Device*> devices;
  for (const auto& device : impl_->devices) devices.push_back(device.get());
  return devices;
}

std::vector<PairBytes> CudaWorld::moved_bytes() const {
  return impl_->exchange ? pairs_of(impl_->exchange->traffic()) : std::vector<PairBytes>();
}

Bytes CudaWorld::counted_memory(int gpu) const {
  Bytes bytes;
  for (const CudaRankMemory& memory : impl_->memory_on(gpu)) bytes += memory.total();
  return bytes;
}

void CudaWorld::abort(const std::string& reason) { impl_->abort(reason); }

std::vector<std::byte> CudaWorld::read_register(Rank rank, InstanceId instance, std::int32_t reg,
                                                std::int32_t content) const {
  const std::span<const std::byte> bytes =
      impl_->devices[rank.index()]->host_view(instance, reg, content);
  return {bytes.begin(), bytes.end()};
}

}  // namespace sextant
