// One rank on one GPU: a stream per queue, an event per launch. One thread launches everything.
#pragma once

#include "actor/device.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_program.h"

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sextant {

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const CudaOptions& options);
  ~CudaDevice() override;

  const DeviceSpec& spec() const override { return spec_; }
  void prepare(const PhysicalGraph& graph, Rank rank) override;
  void launch(std::span<const Launch> group, std::span<Fence> done) override;
  FenceState state(Fence fence) override;
  void wait(Fence fence) override;
  std::span<std::byte> host_view(InstanceId instance, std::int32_t reg,
                                 std::int32_t content) override;
  void abort(const std::string& reason) override;
  std::span<const Stamp> stamps() override;

 private:
  // More than the largest run-ahead window a runtime uses by default, so that launch never blocks.
  static constexpr std::int64_t kEventsPerQueue = 1024;

  struct Entry {
    cudaEvent_t end = nullptr;
    cudaEvent_t begin = nullptr;  // only when profiling
    RunId run;
    std::int64_t step = 0;
  };
  struct Queue {
    cudaStream_t stream = nullptr;
    std::vector<Entry> ring;
    std::atomic<std::int64_t> launched{0};
  };

  Queue& queue(QueueRole role) { return queues_[static_cast<std::size_t>(role)]; }
  static Entry& entry(Queue& queue, std::int64_t sequence) {
    return queue.ring[static_cast<std::size_t>(sequence % kEventsPerQueue)];
  }
  // The event of the fence stands for a later launch now, so the fence is done (invariant 3).
  static bool is_reused(const Queue& queue, Fence fence) {
    return fence.sequence + kEventsPerQueue < queue.launched.load(std::memory_order_acquire);
  }
  void bind() const;  // the calling thread to this GPU
  void create_queue(Queue& queue);
  Fence enqueue(const Launch& launch);
  void reuse(Entry& entry);
  std::string failure_text(Fence fence, cudaError_t error);
  void note(const Entry& entry);

  CudaOptions options_;
  DeviceSpec spec_;
  Rank rank_;
  std::unique_ptr<CudaContext> context_;
  std::unique_ptr<CudaProgram> program_;
  std::array<Queue, kNumQueueRoles> queues_;
  cudaEvent_t epoch_ = nullptr;
  std::vector<Stamp> stamps_;
  std::mutex mutex_;  // of aborted_
  std::optional<std::string> aborted_;
};

}  // namespace sextant
