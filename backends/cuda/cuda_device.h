// One rank on one GPU: a stream per queue, an event per launch. One thread launches everything.
#pragma once

#include "actor/hosts/host_group.h"
#include "actor/protocol/device.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_exchange.h"
#include "backends/cuda/cuda_program.h"
#include "backends/cuda/cuda_replay.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class CudaDevice final : public Device {
 public:
  // Without an exchange: for programs that do not communicate. Borrows it. A wait during which
  // nothing ends on the card for `timeout` fails, where other ranks can be the reason.
  explicit CudaDevice(const CudaOptions& options, CudaExchange* exchange = nullptr,
                      std::chrono::milliseconds timeout = std::chrono::minutes(1));
  ~CudaDevice() override;

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph& graph, Rank rank) override;
  // `prepare` in steps, for who owns several devices. The first allocates nothing on the card:
  // behind it one asks whether all fit together. What measures kernels takes memory for a while,
  // so all arenas of a card come before. `connect` is for all ranks at once, with none missing;
  // `group` is the rank's, borrowed.
  void resolve(const PhysicalGraph& graph, Rank rank);
  void allocate();
  void make_kernels();
  void connect(HostGroup& group);
  void fill();
  CudaRankMemory memory_needed() const { return program_->memory_needed(); }
  void launch(std::span<const Launch> group, std::span<Fence> done) override;
  FenceState state(Fence fence) override;
  void wait(Fence fence) override;
  std::unique_ptr<Replay> capture(const Tape& tape) override;
  // Of the arena, when it is host-visible and no replay or launch is under way.
  std::span<std::byte> host_view(InstanceId instance, std::int32_t reg,
                                 std::int32_t content) override;
  std::span<std::byte> host_view_of_step(InstanceId instance, std::int32_t reg,
                                         std::int32_t content, std::int64_t step) override;
  void abort(const std::string& reason) override;
  std::span<const Stamp> stamps() override;

  // By the replay: enqueues the captured step.
  void launch_graph(std::int64_t step);
  // The captured step, when none is under way; no replay is launched afterwards.
  void drop_graph();
  // Communicates no more.
  void close();

 private:
  // More than the largest run-ahead window a runtime uses by default, so that launch never blocks.
  static constexpr std::int64_t kEventsPerQueue = 1024;
  // Likewise, of steps that are replayed.
  static constexpr std::int64_t kReplayEvents = 16;

  struct Entry {
    cudaEvent_t end = nullptr;
    std::vector<cudaEvent_t> marks;  // when profiling: before each kernel, and behind the last
    RunId run;
    std::int64_t step = 0;
  };
  struct Queue {
    cudaStream_t stream = nullptr;
    cudaEvent_t merge = nullptr;  // recorded and waited for at once, where queues meet
    std::vector<Entry> ring;
    std::int64_t runs_per_step = 0;
    std::int64_t begun_step = -1;  // whose number its kernels read
    std::atomic<std::int64_t> launched{0};
  };

  Queue& queue(QueueRole role) { return queues_[static_cast<std::size_t>(role)]; }
  static Entry& entry(Queue& queue, std::int64_t sequence) {
    return queue.ring[static_cast<std::size_t>(sequence % kEventsPerQueue)];
  }
  // Nothing when the launch is over: its event stands for a later one now.
  cudaEvent_t event_of(Fence fence);
  Fence fence_of(RunId id, std::int64_t step);
  void bind() const;  // the calling thread to this GPU
  void load_kernels(cudaStream_t stream);
  void connect_peers(cudaStream_t stream);
  bool is_aborted();
  void check_not_aborted();
  [[noreturn]] void give_up(const std::string& why);
  cudaError_t wait_watched(const std::function<cudaEvent_t()>& event,
                           const std::function<std::string()>& stuck);
  std::int64_t first_pending(Queue& queue, QueueRole role);
  std::int64_t progress();
  std::string stuck_text(Fence fence);
  std::string stuck_replay_text(std::int64_t step);
  bool all_can_capture(bool own);
  void create_queue(QueueRole role);
  void begin_step(Queue& own, std::int64_t step);
  void wait_for_last_launches(Queue& own);
  void wait_on_stream(Queue& own, Fence fence);
  void enqueue_waits(const Launch& launch);
  Entry& slot_of(const Launch& launch, std::int64_t sequence);
  Fence enqueue(const Launch& launch);
  void enqueue_together(std::span<const Launch> group, std::span<Fence> done);
  void merge(std::span<const QueueRole> queues);
  void enqueue_copies(const std::vector<HostCopyArguments>& copies, cudaStream_t stream);
  void enqueue_work(const CudaRun& run, Entry& slot, cudaStream_t stream);
  void mark(Entry& slot, std::size_t index, cudaStream_t stream);
  void reuse(Entry& entry);
  std::string failure_text(Fence fence, cudaError_t error);
  void note(const Entry& entry);
  Duration since_epoch(cudaEvent_t event) const;

  CudaOptions options_;
  CudaExchange* exchange_;
  HostGroup* group_ = nullptr;
  const std::chrono::milliseconds timeout_;
  DeviceSpec spec_;
  Rank rank_;
  const PhysicalGraph* graph_ = nullptr;
  std::unique_ptr<CudaContext> context_;
  std::unique_ptr<CudaProgram> program_;
  std::array<Queue, kNumQueueRoles> queues_;
  std::vector<QueueRole> used_;  // queues
  std::int64_t step_ = -1;       // of the last launch
  cudaEvent_t step_begun_ = nullptr;
  std::atomic<std::int64_t> first_replayed_;  // step; the largest number while there is none
  std::atomic<std::int64_t> replayed_{0};     // steps, including those before the first
  std::array<cudaEvent_t, kReplayEvents> replay_ends_{};
  cudaEvent_t epoch_ = nullptr;
  std::vector<Stamp> stamps_;
  std::timed_mutex graph_mutex_;
  std::unique_ptr<CudaGraph> captured_;
  std::mutex mutex_;  // of aborted_
  std::optional<std::string> aborted_;
};

}  // namespace sextant
