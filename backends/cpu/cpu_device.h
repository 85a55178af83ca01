// One rank on the CPU: in-order queues that execute prepared runs and report fences. What the ranks
// of a job share is handed in.
#pragma once

#include "actor/hosts/reused_thread.h"
#include "actor/protocol/device.h"
#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "backends/cpu/memory_meter.h"
#include "backends/cpu/prepared_program.h"
#include "backends/cpu/rendezvous.h"

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

// What the ranks of one job share.
struct CpuShared {
  const CpuOptions& options;
  const KernelTable& kernels;
  Rendezvous& rendezvous;
  std::chrono::steady_clock::time_point epoch;  // of stamps
  // How ranks are spread over processes; nullptr: all are in this one.
  const RankBlocks* blocks = nullptr;
  std::int64_t threads = 1;  // of each rank's kernels
};

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const CpuShared& shared);
  ~CpuDevice() override;

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph& graph, Rank rank) override;
  // `prepare` in two steps: everything that can fail, which touches no memory of the size of
  // tensors, and the rest.
  void resolve(const PhysicalGraph& graph, Rank rank);
  void start();
  // What the rank will take, arena included. After `resolve`.
  Bytes memory_needed() const;
  void launch(std::span<const Launch> group, std::span<Fence> done) override;
  FenceState state(Fence fence) override;
  void wait(Fence fence) override;
  std::span<std::byte> host_view(InstanceId instance, std::int32_t reg,
                                 std::int32_t content) override;
  void read_state(InstanceId instance, std::int32_t reg, std::span<std::byte> to) override;
  void write_state(InstanceId instance, std::int32_t reg, std::span<const std::byte> from) override;
  void abort(const std::string& reason) override;
  std::span<const Stamp> stamps() override;

  // Ends the workers. Launches that have not begun are dropped.
  void stop();
  // Launches that are over. Any thread.
  std::int64_t finished_launches() const { return finished_launches_.load(); }
  // What the queues were at when the rank failed, a line each; empty: it has not failed.
  std::vector<std::string> stuck() const;
  // With CpuOptions::measure_memory, when the queues are idle.
  MemoryUse memory_use() const;

 private:
  struct LaunchedRun {
    RunId id;
    std::int64_t step = 0;
    Fence fence;
  };
  // A launch group, seen from all its queues: the last queue to be free executes all runs.
  struct Group {
    std::vector<LaunchedRun> runs;
    std::size_t queues_missing = 0;
    bool begun = false, done = false;
  };
  // One entry of a queue: a launch of which it takes part, and what that must wait for.
  struct Task {
    std::vector<Fence> waits;
    std::shared_ptr<Group> group;
  };
  struct Queue {
    std::deque<Task> tasks;
    const Task* current = nullptr;  // taken, waits or is at work
    std::condition_variable arrived, completed;
    std::int64_t next_sequence = 0, done = 0;  // launches issued, launches complete
    Workspace workspace;
    ReusedThread worker;
  };

  Queue& queue(QueueRole role) { return queues_[static_cast<std::size_t>(role)]; }
  const Queue& queue(QueueRole role) const { return queues_[static_cast<std::size_t>(role)]; }
  bool is_inline() const;
  void start_workers();
  void work(QueueRole role);
  std::vector<std::pair<QueueRole, Task>> tasks_of(std::span<const Launch> group,
                                                   std::span<Fence> done);
  void run_task(QueueRole role, const Task& task);
  void run_current(QueueRole role, const Task& task);
  // False when the device failed meanwhile.
  bool wait_until(std::unique_lock<std::mutex>& lock, std::condition_variable& changed,
                  const std::function<bool()>& condition);
  bool begin(QueueRole role, const Task& task);
  void finish(Group& group);

  void execute(const Group& group, Workspace& workspace);
  void execute_together(const Group& group, Workspace& workspace);
  void execute_run(const LaunchedRun& launched, Workspace& workspace);
  Rendezvous::Ticket post(const PreparedCall& call, std::int64_t step);
  void delay(const LaunchedRun& launched) const;
  void meter_begin(RunId run, std::size_t call);
  void meter_end(RunId run, std::size_t call);
  void note(const LaunchedRun& launched, std::chrono::steady_clock::time_point begin);
  template <typename Function>
  void name_failures(const LaunchedRun& launched, const PreparedCall& call,
                     const Function& function);
  void set_failure(const std::string& reason);
  std::vector<std::string> stuck_now() const;
  std::string launch_text(const Task& task) const;
  std::string state_text(const Task& task) const;

  CpuShared shared_;
  DeviceSpec spec_;
  Rank rank_;
  Bytes arena_;
  Team team_;
  std::unique_ptr<PreparedProgram> program_;
  std::unique_ptr<MemoryMeter> meter_;
  std::atomic<std::int64_t> finished_launches_{0};
  std::atomic<bool> has_failed_{false};  // failure_ is there: for whoever is between two kernels
  mutable std::mutex mutex_;             // of everything below
  std::array<Queue, kNumQueueRoles> queues_;
  std::condition_variable group_changed_;
  std::optional<std::string> failure_;
  std::vector<std::string> stuck_;
  bool stopping_ = false;
  std::vector<Stamp> stamps_;
};

}  // namespace sextant
