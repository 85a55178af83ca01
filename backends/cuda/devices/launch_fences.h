// The launches of one rank, by queue: which event stands for which, whether it is over, waits for
// it, and what is said of one that does not end. Enqueues nothing.
#pragma once

#include "actor/protocol/device.h"
#include "backends/cuda/cuda_exchange.h"
#include "backends/cuda/cuda_program.h"

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Success, not ready or an error, which is no error of a later call.
cudaError_t query_event(cudaEvent_t event);
// On the host; throws an error of the card.
void wait_if_pending(cudaEvent_t event);

class LaunchFences {
 public:
  // More than the largest run-ahead window a runtime uses by default, so that launch never blocks.
  static constexpr std::int64_t kEventsPerQueue = 1024;
  // More than the steps that are replayed ahead by default, so that a replay never blocks.
  static constexpr std::int64_t kReplayEvents = 16;

  struct Entry {
    cudaEvent_t end = nullptr;
    std::vector<cudaEvent_t> marks;  // when profiling: before each kernel, and behind the last
    RunId run;
    std::int64_t step = 0;
  };
  // What a wait does beside looking at its event.
  struct Watch {
    std::chrono::milliseconds timeout;                // while nothing at all ends
    std::function<void()> check_not_aborted;          // throws
    std::function<void(const std::string&)> give_up;  // with the reason; throws
  };

  // Borrows program and exchange (null: nobody else can be the reason of a wait). `who` begins
  // texts. On the thread whose card it is.
  LaunchFences(const CudaProgram& program, CudaExchange* exchange, Rank rank, std::string who);
  ~LaunchFences();
  LaunchFences(const LaunchFences&) = delete;
  LaunchFences& operator=(const LaunchFences&) = delete;
  void add_queue(QueueRole role);
  // Fences count from 0, steps of launches from here: before the first launch.
  void begin_at(std::int64_t first_step) { first_step_ = first_step; }
  // The number of a step among those launched here, which fences and exchanges count by.
  std::int64_t number_of(std::int64_t step) const { return step - first_step_; }
  std::span<const QueueRole> used() const { return used_; }

  // By the thread that launches.
  std::int64_t launched(QueueRole role) const {
    return queue(role).launched.load(std::memory_order_acquire);
  }
  void note_launched(QueueRole role, std::int64_t count) {
    queue(role).launched.store(count, std::memory_order_release);
  }
  Entry& entry(Fence fence) { return queue(fence.queue).entry(fence.sequence); }
  std::span<Entry> ring(QueueRole role) { return queue(role).ring; }
  bool is_replayed(std::int64_t step) const {
    return step >= first_replayed_.load(std::memory_order_acquire);
  }
  void replay_from(std::int64_t step) { first_replayed_.store(step, std::memory_order_release); }
  cudaEvent_t replay_end(std::int64_t step) const {
    return replay_ends_[static_cast<std::size_t>(step % kReplayEvents)];
  }
  void note_replayed(std::int64_t step);

  Fence fence_of(RunId id, std::int64_t step) const;
  // Nothing when the launch is over: its event stands for a later one now.
  cudaEvent_t event_of(Fence fence) const;
  // Where peers may never come: until the fence is done, an abort, a fault of the exchange, or the
  // end of patience. Returns what the card says.
  cudaError_t wait(Fence fence, const Watch& watch);
  // Waits so for what an event stands for (null: over); `stuck` says what has not ended.
  cudaError_t wait(const std::function<cudaEvent_t()>& event,
                   const std::function<std::string()>& stuck, const Watch& watch);
  std::string failure_text(Fence fence, cudaError_t error) const;

 private:
  struct Queue {
    std::vector<Entry> ring;
    std::int64_t runs_per_step = 0;
    std::atomic<std::int64_t> launched{0};
    Entry& entry(std::int64_t sequence) {
      return ring[static_cast<std::size_t>(sequence % kEventsPerQueue)];
    }
    const Entry& entry(std::int64_t sequence) const {
      return ring[static_cast<std::size_t>(sequence % kEventsPerQueue)];
    }
  };

  Queue& queue(QueueRole role) { return queues_[static_cast<std::size_t>(role)]; }
  const Queue& queue(QueueRole role) const { return queues_[static_cast<std::size_t>(role)]; }
  std::int64_t step_of(Fence fence) const {
    return first_step_ + fence.sequence / queue(fence.queue).runs_per_step;
  }
  static void check_not_aborted(const Watch& watch, const std::function<std::string()>& stuck);
  std::int64_t first_pending(QueueRole role) const;
  std::int64_t progress() const;
  std::string stuck_text(Fence fence) const;
  std::string stuck_replay_text(std::int64_t step) const;

  const CudaProgram& program_;
  CudaExchange* const exchange_;
  const Rank rank_;
  const std::string who_;
  std::array<Queue, kNumQueueRoles> queues_;
  std::vector<QueueRole> used_;
  std::int64_t first_step_ = 0;
  std::atomic<std::int64_t> first_replayed_;  // step; the largest number while there is none
  std::atomic<std::int64_t> replayed_{0};     // steps, including those before the first
  std::array<cudaEvent_t, kReplayEvents> replay_ends_{};
};

}  // namespace sextant
