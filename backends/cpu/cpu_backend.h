// The CPU backend: ranks as threads of one process or of several, queues as in-order workers,
// collectives through shared memory and messages that move and count the reference volumes.
#pragma once

#include "actor/hosts/rank_processes.h"
#include "actor/protocol/device.h"
#include "backends/cpu/memory_meter.h"
#include "core/base/units.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

enum class CpuQueueKind : std::uint8_t {
  kInline,        // launch runs the work before it returns (reference)
  kAsynchronous,  // one in-order worker thread per queue
  kStress,        // asynchronous, with seeded random delays, and freed bytes poisoned
};

enum class CpuKernels : std::uint8_t { kReference, kFast };

// How communications run: as rings and pairwise moves over the members' buffers, or by the scripts
// that a library of collectives gets (slower: staging is made in every meeting, and not counted).
enum class CpuCollectives : std::uint8_t { kDirect, kScripts };

struct CpuOptions {
  CpuQueueKind queues = CpuQueueKind::kAsynchronous;
  CpuKernels kernels = CpuKernels::kFast;
  CpuCollectives collectives = CpuCollectives::kDirect;
  std::uint64_t seed = 0;           // of weights and of stress delays
  std::int64_t max_delay_us = 200;  // stress
  // Stress: delay exactly this launch of `delayed_rank`, nothing else.
  std::optional<RunId> delayed_run;
  Rank delayed_rank{0};
  std::int64_t rendezvous_timeout_ms = 60'000;
  // Threads of each rank's kernels; 0: the ranks share this process's cores evenly. No value
  // depends on it, but memory does: some kernels take workspace for every thread.
  std::int64_t threads_per_rank = 0;
  bool profile = false;  // keep stamps
  // Count the bytes in use; inline queues only. See CpuWorld::memory_use.
  bool measure_memory = false;
  // What all ranks may take together, arenas and workspace of kernels; default: what this machine
  // has available.
  std::optional<Bytes> memory;
};

// Owns one Device per rank of this process and what they share. Processes of a job make and destroy
// their worlds in the same order.
class CpuWorld {
 public:
  // Throws Error(kInfeasible) before memory is touched when arenas and workspace do not fit. Of
  // several processes all have their world, or none has.
  CpuWorld(const PhysicalGraph& graph, const CpuOptions& options,
           const std::optional<RankProcesses>& processes = std::nullopt);
  ~CpuWorld();
  CpuWorld(const CpuWorld&) = delete;
  CpuWorld& operator=(const CpuWorld&) = delete;

  // By rank, prepared; nullptr: the rank is in another process.
  std::vector<Device*> devices();
  // Collective and transfer traffic of the ranks of this process so far, by source and destination,
  // sorted, zero entries left out.
  std::vector<PairBytes> moved_bytes() const;
  // Bytes of a content of a register on a rank, when its queues are idle: for tests and reports.
  std::vector<std::byte> read_register(Rank rank, InstanceId instance, std::int32_t reg,
                                       std::int32_t content = 0) const;
  // With `measure_memory`: what the rank's arena held so far.
  MemoryUse memory_use(Rank rank) const;
  // Ends every rank with this reason: those that wait fail, those that compute begin nothing more.
  void abort(const std::string& reason);
  // What the queues of these ranks were at when they failed, a line each.
  std::vector<std::string> stuck() const;
  // Launches of the ranks of this process that are over.
  std::int64_t finished_launches() const;
  // Since the epoch of the stamps, which the ranks of this process share. Any thread.
  Time now() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sextant
