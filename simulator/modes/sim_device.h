// A device whose clock is arithmetic: each launch gets a begin and an end from the cost model, or
// from the Fabric for communications. Queues are in order, like CUDA streams; there is no memory.
#pragma once

#include "actor/protocol/device.h"
#include "actor/tapes/launch_time.h"
#include "core/base/table.h"
#include "core/costs/cost_model.h"
#include "simulator/modes/fabric.h"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace sextant {

struct SimDeviceOptions {
  double jitter = 0.0;  // of compute durations, as in TapeOptions
  std::uint64_t seed = 0;
  // Each rank has a launch thread of its own, which may block until its peers arrive. Without it
  // one thread drives all ranks, in the dry run's order, and blocking would hang: it is refused.
  bool thread_per_rank = false;
};

// What became of one launch, for traces and the parts of a step.
struct SimLaunch {
  RunId run;
  std::int64_t step = 0;
  Time issued;   // by the host
  Time arrived;  // communications: when the last member was there; else = begin
  Time begin, end;
  bool done = false;
  std::int64_t open_group = 0;  // of a communication, the device's own business
};

// begin = max(queue free, issued, waits); end = begin + duration. A launch group begins when all
// its queues and waits are free and ends, as a whole, with its last communication.
//
// The host issues as actor/tapes/launch_time.h says. Host actors take no time: a device without
// memory has them act inline.
class SimDevice final : public Device, private Arrival {
 public:
  SimDevice(Fabric& fabric, const CostModel& cost, const SimDeviceOptions& options = {});

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph& graph, Rank rank) override;
  void launch(std::span<const Launch> group, std::span<Fence> done) override;
  FenceState state(Fence fence) override;
  void wait(Fence fence) override;
  std::span<std::byte> host_view(InstanceId, std::int32_t, std::int32_t) override { return {}; }
  void abort(const std::string& reason) override;
  std::span<const Stamp> stamps() override;

  // Everything launched so far, in issue order of each queue.
  std::vector<SimLaunch> launches() const;

 private:
  // A run as prepared, the same in every step.
  struct RunInfo {
    QueueRole queue = QueueRole::kCompute;
    Duration duration;
    const Communication* communication = nullptr;
  };
  // Communications of one launch that are not all over.
  struct OpenGroup {
    std::vector<Fence> fences;
    std::size_t missing = 0;
    Time end;
  };

  static std::int64_t ticket_of(Fence fence);
  static Fence fence_of(std::int64_t ticket);
  Time enqueue(std::span<const Launch> group, std::span<Fence> done);
  void completed(std::int64_t ticket, Time all_arrived, Time end) override;
  bool is_done(Fence fence) const;
  Time earliest_begin(std::span<const Launch> group, Time issued,
                      std::unique_lock<std::mutex>& lock);
  Time end_of(Fence fence, std::unique_lock<std::mutex>& lock);
  Duration duration_of(const Launch& launch) const;
  SimLaunch& launch_of(Fence fence);
  const SimLaunch& launch_of(Fence fence) const;

  Fabric& fabric_;
  const CostModel& cost_;
  SimDeviceOptions options_;
  DeviceSpec spec_;
  Rank rank_;
  std::vector<RunInfo> runs_;

  mutable std::mutex mutex_;  // communications are completed by the thread of the last member
  std::condition_variable over_;
  FixedTable<QueueRole, std::vector<SimLaunch>, kNumQueueRoles> queues_;  // by sequence
  std::map<std::int64_t, OpenGroup> open_groups_;  // by SimLaunch::open_group
  std::int64_t num_groups_ = 0;
  HostChain host_;
  std::string aborted_;
  std::vector<Stamp> stamps_;
};

}  // namespace sextant
