// The world of one job on GPUs: which rank is on which card, whether those of a card fit together,
// and in which order memory goes.
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_device.h"
#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/local_exchange.h"
#include "core/check.h"
#include "core/counted_text.h"

#include <algorithm>
#include <chrono>
#include <set>

namespace sextant {
namespace {

std::vector<int> usable_gpus(const CudaWorldOptions& options) {
  const int count = num_cuda_devices();
  require(count > 0, ErrorCode::kDevice, "no usable GPU: {}", why_no_cuda_device());
  std::vector<int> gpus = options.gpus;
  for (int gpu = 0; options.gpus.empty() && gpu < count; ++gpu) gpus.push_back(gpu);
  std::set<int> seen;
  for (const int gpu : gpus) {
    require(gpu >= 0 && gpu < count, ErrorCode::kDevice, "GPU {} of {} does not exist", gpu, count);
    require(seen.insert(gpu).second, ErrorCode::kUsage, "GPU {} is named twice", gpu);
  }
  return gpus;
}

// A card of each rank.
std::vector<int> gpus_of_ranks(std::size_t ranks, const CudaWorldOptions& options) {
  const std::vector<int> gpus = usable_gpus(options);
  require(options.ranks_per_gpu >= 1, ErrorCode::kUsage,
          "--ranks-per-gpu {}: a card has at least one rank", options.ranks_per_gpu);
  const auto each = static_cast<std::size_t>(options.ranks_per_gpu);
  require(ranks <= gpus.size() * each, ErrorCode::kInfeasible,
          "the plan has {} ranks, and {} x {} per GPU are fewer: --ranks-per-gpu {} would do, and "
          "--backend cpu runs all of them too",
          ranks, counted(static_cast<std::int64_t>(gpus.size()), "GPU"), each,
          (ranks + gpus.size() - 1) / gpus.size());
  std::vector<int> of_rank;
  for (std::size_t rank = 0; rank < ranks; ++rank) of_rank.push_back(gpus[rank / each]);
  return of_rank;
}

// Kernels read the memory of every card.
void let_reach_each_other(const std::set<int>& gpus) {
  for (const int gpu : gpus)
    for (const int peer : gpus) {
      if (gpu == peer) continue;
      int can = 0;
      SEXTANT_CUDA(cudaDeviceCanAccessPeer(&can, gpu, peer));
      require(can != 0, ErrorCode::kDevice, "GPU {} cannot read the memory of GPU {}", gpu, peer);
      SEXTANT_CUDA(cudaSetDevice(gpu));
      const cudaError_t status = cudaDeviceEnablePeerAccess(peer, 0);
      if (status == cudaErrorPeerAccessAlreadyEnabled)
        cudaGetLastError();
      else
        SEXTANT_CUDA(status);
    }
}

}  // namespace

struct CudaWorld::Impl {
  Impl(const PhysicalGraph& graph, const CudaWorldOptions& options)
      : exchange(graph, std::chrono::milliseconds(options.meeting_timeout_ms)) {
    const std::size_t ranks = graph.ranks.size();
    const std::vector<int> of_rank = gpus_of_ranks(ranks, options);
    gpus.insert(of_rank.begin(), of_rank.end());
    let_reach_each_other(gpus);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      CudaOptions own = options.each;
      own.device = of_rank[rank];
      if (ranks > 1) own.tune_matmuls = false;
      devices.push_back(std::make_unique<CudaDevice>(own, ranks > 1 ? &exchange : nullptr));
      devices.back()->resolve(graph, Rank(rank));
    }
    if (!options.each.host_visible) require_room_on_cards(of_rank);
    for (const auto& device : devices) device->start();
  }

  // Memory of one rank may be read by the kernels of another: all end before any memory goes.
  ~Impl() {
    exchange.abort("the job has ended");
    for (const int gpu : gpus) {
      cudaSetDevice(gpu);
      cudaDeviceSynchronize();
    }
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

  std::set<int> gpus;
  LocalExchange exchange;
  std::vector<std::unique_ptr<CudaDevice>> devices;
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
  return pairs_of(impl_->exchange.traffic());
}

void CudaWorld::abort(const std::string& reason) {
  for (const auto& device : impl_->devices) device->abort(reason);
}

std::vector<std::byte> CudaWorld::read_register(Rank rank, InstanceId instance, std::int32_t reg,
                                                std::int32_t content) const {
  const std::span<const std::byte> bytes =
      impl_->devices[rank.index()]->host_view(instance, reg, content);
  return {bytes.begin(), bytes.end()};
}

}  // namespace sextant
