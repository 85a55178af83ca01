// One rank on one GPU: a stream per queue, an event per launch. One thread launches everything.
#pragma once

#include "actor/hosts/host_group.h"
#include "actor/protocol/device.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_exchange.h"
#include "backends/cuda/cuda_program.h"
#include "backends/cuda/devices/cuda_replay.h"
#include "backends/cuda/devices/device_states.h"
#include "backends/cuda/devices/early_copies.h"
#include "backends/cuda/devices/launch_fences.h"
#include "backends/cuda/devices/launch_stamps.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
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
  void connect(HostAgreement& group);
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
  void read_state(InstanceId instance, std::int32_t reg, std::span<std::byte> to) override;
  void write_state(InstanceId instance, std::int32_t reg, std::span<const std::byte> from) override;
  std::shared_ptr<StateCopies> make_state_copies(std::vector<StateToCopy> states) override;
  void abort(const std::string& reason) override;
  std::span<const Stamp> stamps() override;

  // By the replay: enqueues the captured step.
  void launch_graph(std::int64_t step);
  // The captured step, when none is under way; no replay is launched afterwards.
  void drop_graph();
  // Communicates no more.
  void close();

 private:
  using Entry = LaunchFences::Entry;
  struct Queue {
    cudaStream_t stream = nullptr;
    cudaEvent_t merge = nullptr;   // recorded and waited for at once, where queues meet
    std::int64_t begun_step = -1;  // whose number its kernels read
  };

  Queue& queue(QueueRole role) { return queues_[static_cast<std::size_t>(role)]; }
  std::string who() const;
  void bind() const;  // the calling thread to this GPU
  void come_to(CommonWait stage);
  // From here on this rank waits for all others, until `met`.
  void meet(std::string_view what);
  std::chrono::milliseconds patience() const;  // while it may be busy for long
  void met();
  void load_kernels(cudaStream_t stream);
  void connect_peers(cudaStream_t stream);
  bool is_aborted();
  void check_not_aborted();
  [[noreturn]] void give_up(const std::string& why);
  LaunchFences::Watch watch();
  bool all_can_capture(bool own);
  void drop_if_aborted();
  void create_queue(QueueRole role);
  void begin_step(Queue& own, std::int64_t step);
  void wait_for_last_launches(Queue& own);
  void wait_on_stream(Queue& own, Fence fence);
  void enqueue_waits(const Launch& launch);
  Entry& slot_of(const Launch& launch, Fence fence);
  Fence enqueue(const Launch& launch);
  void enqueue_together(std::span<const Launch> group, std::span<Fence> done);
  void merge(std::span<const QueueRole> queues);
  void enqueue_copies(const std::vector<HostCopyArguments>& copies, cudaStream_t stream);
  void bring_all_early(std::int64_t step, cudaStream_t reader);
  void copy_in(RunId id, std::int64_t step, cudaStream_t stream);
  void enqueue_work(const CudaRun& run, Entry& slot, cudaStream_t stream);
  void mark(Entry& slot, std::size_t index, cudaStream_t stream);
  void reuse(Entry& entry);

  CudaOptions options_;
  CudaExchange* exchange_;
  std::atomic<HostAgreement*> group_ = nullptr;  // whoever aborts may not be the rank
  const std::chrono::milliseconds timeout_;
  DeviceSpec spec_;
  Rank rank_;
  const PhysicalGraph* graph_ = nullptr;
  std::unique_ptr<CudaContext> context_;
  std::unique_ptr<CudaProgram> program_;
  std::unique_ptr<LaunchFences> fences_;
  std::array<Queue, kNumQueueRoles> queues_;
  std::unique_ptr<DeviceStates> states_;
  std::unique_ptr<EarlyCopies> early_;
  std::int64_t step_ = -1;  // of the last launch
  cudaEvent_t step_begun_ = nullptr;
  std::unique_ptr<LaunchStamps> stamps_;  // null: not profiling
  std::timed_mutex graph_mutex_;
  std::unique_ptr<CudaGraph> captured_;
  std::mutex mutex_;  // of aborted_
  std::optional<std::string> aborted_;
};

}  // namespace sextant
