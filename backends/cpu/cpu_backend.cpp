// The world of one job: a device per rank and the rendezvous they share.
#include "backends/cpu/cpu_backend.h"

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/rendezvous.h"
#include "core/base/check.h"
#include "core/base/machine_memory.h"

#include <chrono>
#include <memory>
#include <vector>

namespace sextant {
namespace {

KernelTable table_of(CpuKernels kernels) {
  switch (kernels) {
    case CpuKernels::kReference:
      return reference_kernels();
    case CpuKernels::kFast:
      return fast_kernels();
  }
  return {};
}

Bytes arena_of(const PhysicalGraph& graph, std::size_t rank) {
  return graph.program_of(Rank(rank)).arena.size;
}

void require_arenas(const PhysicalGraph& graph, Bytes memory) {
  Bytes sum;
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
    sum += arena_of(graph, rank);  // below 2^60 each (rule I28), and refused before it overflows
    require(sum <= memory, ErrorCode::kInfeasible,
            "the arenas of ranks 0 to {} of {} need {}, and {} are available: {} too much; rank {} "
            "('{}') alone needs {}",
            rank, graph.ranks.size(), to_text(sum), to_text(memory), to_text(sum - memory), rank,
            graph.program_of(Rank(rank)).name, to_text(arena_of(graph, rank)));
  }
}

using Devices = std::vector<std::unique_ptr<CpuDevice>>;

// Arenas fit, but kernels and communications need room beside them.
void require_workspace(const PhysicalGraph& graph, const Devices& devices, Bytes memory) {
  Bytes arenas, needed;
  for (std::size_t rank = 0; rank < devices.size(); ++rank) {
    arenas += arena_of(graph, rank);
    needed += devices[rank]->memory_needed();
  }
  require(needed <= memory, ErrorCode::kInfeasible,
          "{} ranks need {} of this machine's memory, which is {}: {} too much; arenas {}, "
          "workspace of kernels and communications {}",
          devices.size(), to_text(needed), to_text(memory), to_text(needed - memory),
          to_text(arenas), to_text(needed - arenas));
}

}  // namespace

struct CpuWorld::Impl {
  Impl(const PhysicalGraph& graph, const CpuOptions& given)
      : options(given),
        kernels(table_of(given.kernels)),
        rendezvous(graph, std::chrono::milliseconds(given.rendezvous_timeout_ms),
                   given.collectives) {
    const Bytes memory = options.memory ? *options.memory : machine_memory().available;
    require_arenas(graph, memory);
    const CpuShared shared{options, kernels, rendezvous, std::chrono::steady_clock::now()};
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      devices.push_back(std::make_unique<CpuDevice>(shared));
      devices.back()->resolve(graph, Rank(rank));
    }
    require_workspace(graph, devices, memory);
    for (const auto& device : devices) device->start();
  }

  // Memory of one rank may be read by the thread of another: all threads end before any memory.
  ~Impl() {
    rendezvous.abort("the job has ended");
    for (const auto& device : devices) device->stop();
  }

  const CpuOptions options;
  const KernelTable kernels;
  Rendezvous rendezvous;
  Devices devices;
};

CpuWorld::CpuWorld(const PhysicalGraph& graph, const CpuOptions& options)
    : impl_(std::make_unique<Impl>(graph, options)) {}

CpuWorld::~CpuWorld() = default;

std::vector<Device*> CpuWorld::devices() {
  std::vector<Device*> devices;
  for (const auto& device : impl_->devices) devices.push_back(device.get());
  return devices;
}

std::vector<PairBytes> CpuWorld::moved_bytes() const {
  return pairs_of(impl_->rendezvous.traffic());
}

std::vector<std::byte> CpuWorld::read_register(Rank rank, InstanceId instance, std::int32_t reg,
                                               std::int32_t content) const {
  const std::span<const std::byte> bytes =
      impl_->devices[rank.index()]->host_view(instance, reg, content);
  return {bytes.begin(), bytes.end()};
}

MemoryUse CpuWorld::memory_use(Rank rank) const {
  return impl_->devices[rank.index()]->memory_use();
}

void CpuWorld::abort(const std::string& reason) {
  for (const auto& device : impl_->devices) device->abort(reason);
}

std::int64_t CpuWorld::finished_launches() const {
  std::int64_t launches = 0;
  for (const auto& device : impl_->devices) launches += device->finished_launches();
  return launches;
}

}  // namespace sextant
