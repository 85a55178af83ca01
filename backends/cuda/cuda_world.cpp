// The world of one job on GPUs: which rank is on which card, whether those of a card fit together,
// and in which order memory goes.
#include "actor/hosts/host_group.h"
#include "actor/hosts/rank_threads.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/local_exchange.h"
#include "backends/cuda/measured_choices.h"
#include "backends/cuda/nccl_exchange.h"
#include "backends/cuda/rank_placement.h"
#include "core/base/check.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
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

std::unique_ptr<CudaExchange> make_exchange(const PhysicalGraph& graph,
                                            const CudaWorldOptions& options,
                                            CudaCollectives collectives) {
  if (collectives == CudaCollectives::kNccl)
    return std::make_unique<NcclExchange>(graph, options.each.deterministic);
  return std::make_unique<LocalExchange>(graph, std::chrono::milliseconds(options.timeout_ms));
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

// Sees to it that ranks which keep others waiting end all, and that those which were told to end
// do, or that somebody hears of it.
class LastResort {
 public:
  LastResort(const CudaExchange& exchange, const StageWatch& stages,
             const CudaWorldOptions& options, std::function<void(const std::string&)> abort)
      : exchange_(exchange),
        stages_(stages),
        options_(options),
        abort_(std::move(abort)),
        thread_([this] { watch(); }) {}
  ~LastResort() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLook{100};
  // From the abort on: freeing communicators takes half a second each.
  static constexpr std::chrono::seconds kGrace{4};

  void watch() {
    std::optional<Clock::time_point> ends_by;
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, kLook, [this] { return is_over_; })) {
      const Clock::time_point now = Clock::now();
      if (!ends_by && end_if_late()) ends_by = now + kGrace;
      const std::optional<std::string> reason = exchange_.abort_reason();
      if (reason && !ends_by) ends_by = now + kGrace;
      if (!ends_by || now <= *ends_by) continue;
      if (options_.give_up) options_.give_up(reason.value_or("ranks did not end"));
      return;
    }
  }

  bool end_if_late() const {
    const std::optional<std::string> late = stages_.late();
    if (late) abort_(*late);
    return late.has_value();
  }

  const CudaExchange& exchange_;
  const StageWatch& stages_;
  const CudaWorldOptions& options_;
  const std::function<void(const std::string&)> abort_;
  std::mutex mutex_;  // of is_over_
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace

CudaCollectives collectives_of(std::size_t ranks, const CudaWorldOptions& options) {
  return collectives_for(options.collectives, cards_of_ranks(ranks, options), has_nccl());
}

struct CudaWorld::Impl {
  Impl(const PhysicalGraph& graph, const CudaWorldOptions& given)
      : options(given), groups(graph.ranks.size()) {
    const std::size_t ranks = graph.ranks.size();
    const auto choices = std::make_shared<MeasuredChoices>();
    gpu_of_rank = cards_of_ranks(ranks, options);
    const std::vector<int>& of_rank = gpu_of_rank;
    gpus.insert(of_rank.begin(), of_rank.end());
    const CudaCollectives collectives = collectives_for(options.collectives, of_rank, has_nccl());
    if (collectives == CudaCollectives::kLocal) let_reach_each_other(gpus);
    if (ranks > 1) exchange = make_exchange(graph, options, collectives);
    if (ranks > 1) watch_stages();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CudaOptions own = options.each;
      own.device = of_rank[rank];
      if (ranks > 1) {
        own.choices = choices;
        own.stages = &*stages;
        own.graphs = own.graphs && options.graphs_of_several && can_all_replay(graph);
      }
      devices.push_back(std::make_unique<CudaDevice>(
          own, exchange.get(), std::chrono::milliseconds(options.timeout_ms)));
      devices.back()->resolve(graph, Rank(rank));
    }
    if (!options.each.host_visible) require_room_on_cards(of_rank);
    prepare();
  }

  void watch_stages() {
    std::vector<Rank> ranks;
    for (std::size_t rank = 0; rank < gpu_of_rank.size(); ++rank) ranks.emplace_back(rank);
    const std::size_t count = ranks.size();
    stages.emplace(std::move(ranks), count, time_now);
  }

  // What a rank's thread does at last, before it is joined.
  void wait_for_others(Rank rank, std::string_view what) {
    const std::int64_t patience_ms = std::max(options.timeout_ms, options.each.least_patience_ms);
    if (stages) stages->enter(rank, what, std::chrono::milliseconds(patience_ms));
  }
  void have_come() {
    for (std::size_t rank = 0; stages && rank < devices.size(); ++rank) stages->leave(Rank(rank));
  }

  // All ranks come through `act`, or none goes on.
  static void agree_after(HostGroup& group, const std::function<void()>& act) {
    std::optional<Error> failed;
    try {
      act();
    } catch (const Error& error) {
      failed = error;
    }
    group.agree(failed);
  }

  // Whoever fails later, while ranks connect, ends the others by an abort.
  void prepare() {
    if (exchange)
      last_resort.emplace(*exchange, *stages, options,
                          [this](const std::string& late) { abort(late); });
    try {
      on_rank_threads(
          devices.size(),
          [&](std::size_t rank) {
            CudaDevice& device = *devices[rank];
            HostGroup& group = groups.of(Rank(rank));
            agree_after(group, [&] { device.allocate(); });
            agree_after(group, [&] { device.make_kernels(); });
            device.connect(group);
            device.fill();
            wait_for_others(Rank(rank), "connecting");
          },
          [&](const std::string& reason) { abort(reason); });
      have_come();
    } catch (...) {
      end();
      throw;
    }
  }

  ~Impl() { end(); }

  // Memory of one rank may be read by the kernels of another: all end before any memory goes.
  void end() {
    for (const int gpu : gpus) {
      cudaSetDevice(gpu);
      cudaDeviceSynchronize();
    }
    for (const auto& device : devices) device->drop_graph();
    if (!exchange) return;
    try {
      on_rank_threads(
          devices.size(),
          [&](std::size_t rank) {
            devices[rank]->close();
            wait_for_others(Rank(rank), "closing");
          },
          [](const std::string&) {});
      have_come();
    } catch (const Error&) {
      // Nothing of the job is left to be told.
    }
  }

  Bytes counted_memory(int gpu) const {
    Bytes bytes;
    for (std::size_t rank = 0; rank < devices.size(); ++rank)
      if (gpu_of_rank[rank] == gpu) bytes += devices[rank]->memory_needed().total();
    return bytes;
  }

  void abort(const std::string& reason) {
    groups.abort(reason);
    for (const auto& device : devices) device->abort(reason);
  }

  // A rank without work never comes to the agreement on graphs.
  static bool can_all_replay(const PhysicalGraph& graph) {
    return std::all_of(graph.ranks.begin(), graph.ranks.end(), [&](const RankBinding& rank) {
      return !graph.programs[rank.program].order.empty();
    });
  }

  void require_room_on_cards(const std::vector<int>& of_rank) const {
    for (const int gpu : gpus) {
      std::vector<CudaRankMemory> sharing;
      for (std::size_t rank = 0; rank < devices.size(); ++rank)
        if (of_rank[rank] == gpu) sharing.push_back(devices[rank]->memory_needed());
      std::size_t free = 0, total = 0;
      SEXTANT_CUDA(cudaSetDevice(gpu));
      SEXTANT_CUDA(cudaMemGetInfo(&free, &total));
      require_room(sharing, cuda_device_name(gpu), Bytes(static_cast<std::int64_t>(free)),
                   Bytes(static_cast<std::int64_t>(total)));
    }
  }

  const CudaWorldOptions options;
  std::vector<int> gpu_of_rank;
  std::set<int> gpus;
  ThreadHostGroups groups;
  std::unique_ptr<CudaExchange> exchange;  // of several ranks
  std::optional<StageWatch> stages;        // likewise
  std::vector<std::unique_ptr<CudaDevice>> devices;
  std::optional<LastResort> last_resort;
};

CudaWorld::CudaWorld(const PhysicalGraph& graph, const CudaWorldOptions& options)
    : impl_(std::make_unique<Impl>(graph, options)) {}

CudaWorld::~CudaWorld() = default;

std::vector<Device*> CudaWorld::devices() {
  std::vector<Device*> devices;
  for (const auto& device : impl_->devices) devices.push_back(device.get());
  return devices;
}

std::vector<PairBytes> CudaWorld::moved_bytes() const {
  return impl_->exchange ? pairs_of(impl_->exchange->traffic()) : std::vector<PairBytes>();
}

Bytes CudaWorld::counted_memory(int gpu) const { return impl_->counted_memory(gpu); }

void CudaWorld::abort(const std::string& reason) { impl_->abort(reason); }

std::vector<std::byte> CudaWorld::read_register(Rank rank, InstanceId instance, std::int32_t reg,
                                                std::int32_t content) const {
  const std::span<const std::byte> bytes =
      impl_->devices[rank.index()]->host_view(instance, reg, content);
  return {bytes.begin(), bytes.end()};
}

}  // namespace sextant
