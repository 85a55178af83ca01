// The world of one job: a device per rank and the rendezvous they share.
#include "backends/cpu/cpu_backend.h"

#include "backends/cpu/cpu_device.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/machine_load.h"
#include "backends/cpu/rendezvous.h"
#include "core/base/check.h"
#include "core/base/machine_memory.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
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

// Ranks of other processes are taken to be on this machine too: a core too few for each does less
// harm than two threads on one.
std::int64_t threads_of(const CpuOptions& options, std::size_t ranks) {
  if (options.threads_per_rank > 0) return options.threads_per_rank;
  return std::max<std::int64_t>(usable_cores() / static_cast<std::int64_t>(ranks), 1);
}

Bytes arena_of(const PhysicalGraph& graph, std::size_t rank) {
  return graph.program_of(Rank(rank)).arena.size;
}

void require_arenas(const PhysicalGraph& graph, const std::vector<Rank>& ranks, Bytes memory) {
  Bytes sum;
  for (const Rank own : ranks) {
    const std::size_t rank = own.index();
    sum += arena_of(graph, rank);  // below 2^60 each (rule I28), and refused before it overflows
    require(
        sum <= memory, ErrorCode::kInfeasible,
        "the arenas of ranks {} to {} of {} need {}, and {} are available: {} too much; rank {} "
        "('{}') alone needs {}",
        ranks.front().value, rank, graph.ranks.size(), to_text(sum), to_text(memory),
        to_text(sum - memory), rank, graph.program_of(Rank(rank)).name,
        to_text(arena_of(graph, rank)));
  }
}

using Devices = std::vector<std::unique_ptr<CpuDevice>>;  // by rank; nullptr: in another process

// Arenas fit, but kernels and communications need room beside them.
void require_workspace(const PhysicalGraph& graph, const Devices& devices,
                       const std::vector<Rank>& ranks, Bytes memory) {
  Bytes arenas, needed;
  for (const Rank rank : ranks) {
    arenas += arena_of(graph, rank.index());
    needed += devices[rank.index()]->memory_needed();
  }
  require(needed <= memory, ErrorCode::kInfeasible,
          "{} ranks need {} of this machine's memory, which is {}: {} too much; arenas {}, "
          "workspace of kernels and communications {}",
          ranks.size(), to_text(needed), to_text(memory), to_text(needed - memory), to_text(arenas),
          to_text(needed - arenas));
}

}  // namespace

struct CpuWorld::Impl {
  Impl(const PhysicalGraph& graph, const CpuOptions& given,
       const std::optional<RankProcesses>& given_processes)
      : options(given),
        processes(given_processes),
        kernels(table_of(given.kernels)),
        rendezvous(graph, std::chrono::milliseconds(given.rendezvous_timeout_ms), given.collectives,
                   given_processes),
        devices(graph.ranks.size()) {
    if (processes)
      require(processes->blocks.num_ranks() == graph.ranks.size(), ErrorCode::kUsage,
              "processes with {} ranks for a graph of {}", processes->blocks.num_ranks(),
              graph.ranks.size());
    agree_after(processes, [&] { resolve(graph); });
    try {
      agree_after(processes, [&] {
        for (const auto& device : devices)
          if (device) device->start();
        rendezvous.connect([this](const std::string& reason) { end_soon(reason); });
      });
    } catch (...) {
      end();
      throw;
    }
  }

  ~Impl() { end(); }

  // Memory of one rank may be read by the thread of another: all threads end before any memory.
  void end() {
    {
      const std::lock_guard lock(mutex);
      is_ending = true;
      ending.notify_all();
    }
    rendezvous.disconnect();
    rendezvous.abort("the job has ended");
    for (const auto& device : devices)
      if (device) device->stop();
  }

  void resolve(const PhysicalGraph& graph) {
    const Bytes memory = options.memory ? *options.memory : machine_memory().available;
    const std::vector<Rank> own = ranks_here(devices.size(), processes);
    require_arenas(graph, own, memory);
    const CpuShared shared{.options = options,
                           .kernels = kernels,
                           .rendezvous = rendezvous,
                           .epoch = epoch,
                           .blocks = processes ? &processes->blocks : nullptr,
                           .threads = threads_of(options, graph.ranks.size())};
    for (const Rank rank : own) {
      devices[rank.index()] = std::make_unique<CpuDevice>(shared);
      devices[rank.index()]->resolve(graph, rank);
    }
    require_workspace(graph, devices, own, memory);
  }

  // Whoever waits in a meeting has got the reason and says in which; the others get it when he has
  // had time to.
  void end_soon(const std::string& reason) {
    constexpr std::chrono::milliseconds kTimeToSay{200};
    {
      std::unique_lock lock(mutex);
      if (ending.wait_for(lock, kTimeToSay, [this] { return is_ending; })) return;
    }
    abort(reason);
  }

  void abort(const std::string& reason) {
    for (const auto& device : devices)
      if (device) device->abort(reason);
  }

  const std::chrono::steady_clock::time_point epoch = std::chrono::steady_clock::now();
  const CpuOptions options;
  const std::optional<RankProcesses> processes;
  const KernelTable kernels;
  std::mutex mutex;
  std::condition_variable ending;
  bool is_ending = false;
  Rendezvous rendezvous;
  Devices devices;
};

CpuWorld::CpuWorld(const PhysicalGraph& graph, const CpuOptions& options,
                   const std::optional<RankProcesses>& processes)
    : impl_(std::make_unique<Impl>(graph, options, processes)) {}

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

void CpuWorld::abort(const std::string& reason) { impl_->abort(reason); }

std::vector<std::string> CpuWorld::stuck() const {
  std::vector<std::string> lines;
  for (const auto& device : impl_->devices)
    if (device)
      for (std::string& line : device->stuck()) lines.push_back(std::move(line));
  return lines;
}

std::int64_t CpuWorld::finished_launches() const {
  std::int64_t launches = 0;
  for (const auto& device : impl_->devices)
    if (device) launches += device->finished_launches();
  return launches;
}

Time CpuWorld::now() const {
  const auto since = std::chrono::steady_clock::now() - impl_->epoch;
  return Time(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count() * 1000);
}

}  // namespace sextant
