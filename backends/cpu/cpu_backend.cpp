// The world of one job: a device per rank and the rendezvous they share.
#include "backends/cpu/cpu_backend.h"

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernel.h"
#include "backends/cpu/rendezvous.h"

#include <chrono>

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

}  // namespace

struct CpuWorld::Impl {
  Impl(const PhysicalGraph& graph, const CpuOptions& given)
      : options(given),
        kernels(table_of(given.kernels)),
        rendezvous(graph, std::chrono::milliseconds(given.rendezvous_timeout_ms)) {
    const CpuShared shared{options, kernels, rendezvous, std::chrono::steady_clock::now()};
    for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
      devices.push_back(std::make_unique<CpuDevice>(shared));
      devices.back()->prepare(graph, Rank(rank));
    }
  }

  // Memory of one rank may be read by the thread of another: all threads end before any memory.
  ~Impl() {
    rendezvous.abort("the job has ended");
    for (const auto& device : devices) device->stop();
  }

  const CpuOptions options;
  const KernelTable kernels;
  Rendezvous rendezvous;
  std::vector<std::unique_ptr<CpuDevice>> devices;
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

void CpuWorld::abort(const std::string& reason) { impl_->rendezvous.abort(reason); }

}  // namespace sextant
