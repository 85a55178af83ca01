// Streams and events under the actor protocol. Waits become cudaStreamWaitEvent, so the host never
// waits for device work inside launch.
#include "backends/cuda/cuda_device.h"

#include "backends/cuda/cuda_check.h"
#include "core/check.h"

#include <algorithm>

namespace sextant {

int num_cuda_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::unique_ptr<Device> make_cuda_device(const CudaOptions& options) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  require(status == cudaSuccess, ErrorCode::kDevice, "no usable GPU: {}",
          cudaGetErrorString(status));
  require(options.device >= 0 && options.device < count, ErrorCode::kDevice,
          "GPU {} of {} does not exist", options.device, count);
  return std::make_unique<CudaDevice>(options);
}

CudaDevice::CudaDevice(const CudaOptions& options) : options_(options) {
  cudaDeviceProp properties{};
  SEXTANT_CUDA(cudaGetDeviceProperties(&properties, options.device));
  spec_.name = properties.name;
  spec_.queues = {QueueRole::kCompute,
                  QueueRole::kCollective,
                  QueueRole::kTransferOutForward,
                  QueueRole::kTransferOutBackward,
                  QueueRole::kTransferInForward,
                  QueueRole::kTransferInBackward,
                  QueueRole::kCopyIn,
                  QueueRole::kCopyOut};
  spec_.dtypes = {DType::kF32, DType::kBF16};
  spec_.has_memory = true;
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(options_.device);
  cudaDeviceSynchronize();
  for (Queue& queue : queues_) {
    for (const Entry& entry : queue.ring) {
      cudaEventDestroy(entry.end);
      if (entry.begin != nullptr) cudaEventDestroy(entry.begin);
    }
    if (queue.stream != nullptr) cudaStreamDestroy(queue.stream);
  }
  if (epoch_ != nullptr) cudaEventDestroy(epoch_);
}

void CudaDevice::bind() const { SEXTANT_CUDA(cudaSetDevice(options_.device)); }

void CudaDevice::create_queue(Queue& queue) {
  SEXTANT_CUDA(cudaStreamCreateWithFlags(&queue.stream, cudaStreamNonBlocking));
  queue.ring.resize(static_cast<std::size_t>(kEventsPerQueue));
  const unsigned flags = options_.profile ? cudaEventDefault : cudaEventDisableTiming;
  for (Entry& entry : queue.ring) {
    SEXTANT_CUDA(cudaEventCreateWithFlags(&entry.end, flags));
    if (options_.profile) SEXTANT_CUDA(cudaEventCreateWithFlags(&entry.begin, flags));
  }
}

void CudaDevice::prepare(const PhysicalGraph& graph, Rank rank) {
  require(program_ == nullptr, ErrorCode::kUsage, "rank {} was prepared twice", rank.value);
  bind();
  rank_ = rank;
  context_ = std::make_unique<CudaContext>(options_);
  program_ = std::make_unique<CudaProgram>(graph, rank, *context_, options_);
  for (const QueueRole role : spec_.queues)
    if (program_->uses(role)) create_queue(queue(role));
  if (!options_.profile) return;
  SEXTANT_CUDA(cudaEventCreate(&epoch_));
  SEXTANT_CUDA(cudaEventRecord(epoch_, nullptr));
}

void CudaDevice::note(const Entry& entry) {
  if (!options_.profile || !entry.run.is_valid()) return;
  float begin_ms = 0, end_ms = 0;
  SEXTANT_CUDA(cudaEventElapsedTime(&begin_ms, epoch_, entry.begin));
  SEXTANT_CUDA(cudaEventElapsedTime(&end_ms, epoch_, entry.end));
  stamps_.push_back({entry.run, entry.step,
                     duration_from_seconds(std::max(0.0, static_cast<double>(begin_ms) * 1e-3)),
                     duration_from_seconds(std::max(0.0, static_cast<double>(end_ms) * 1e-3))});
}

// The launch this event stood for must be over before the event is recorded again.
void CudaDevice::reuse(Entry& entry) {
  if (!entry.run.is_valid()) return;
  SEXTANT_CUDA(cudaEventSynchronize(entry.end));
  note(entry);
}

Fence CudaDevice::enqueue(const Launch& launch) {
  const CudaRun& run = program_->run(launch.run);
  Queue& own = queue(run.queue);
  for (const Fence& fence : launch.waits) {
    Queue& other = queue(fence.queue);
    SEXTANT_INVARIANT(fence.sequence < other.launched.load(),
                      "rank {}: run {} waits for launch {} of queue {}, which was not issued",
                      rank_.value, launch.run.value, fence.sequence, to_string(fence.queue));
    if (!is_reused(other, fence))
      SEXTANT_CUDA(cudaStreamWaitEvent(own.stream, entry(other, fence.sequence).end, 0));
  }
  const std::int64_t sequence = own.launched.load(std::memory_order_relaxed);
  Entry& slot = entry(own, sequence);
  reuse(slot);
  slot.run = launch.run;
  slot.step = launch.step;
  if (options_.profile) SEXTANT_CUDA(cudaEventRecord(slot.begin, own.stream));
  for (const auto& kernel : run.kernels) kernel->enqueue(own.stream);
  SEXTANT_CUDA(cudaEventRecord(slot.end, own.stream));
  own.launched.store(sequence + 1, std::memory_order_release);
  return {run.queue, sequence};
}

// Groups hold communications, which `prepare` refuses: a span of several launches cannot come.
void CudaDevice::launch(std::span<const Launch> group, std::span<Fence> done) {
  bind();
  for (std::size_t i = 0; i < group.size(); ++i) done[i] = enqueue(group[i]);
}

std::string CudaDevice::failure_text(Fence fence, cudaError_t error) {
  Queue& own = queue(fence.queue);
  const std::int64_t launched = own.launched.load();
  std::int64_t first = std::max<std::int64_t>(0, launched - kEventsPerQueue);
  while (first < fence.sequence && cudaEventQuery(entry(own, first).end) == cudaSuccess) ++first;
  return fmt::format("rank {} ({}): operator '{}' or one after it: {}", rank_.value, spec_.name,
                     program_->actor_name(entry(own, first).run), cudaGetErrorString(error));
}

FenceState CudaDevice::state(Fence fence) {
  bind();
  Queue& own = queue(fence.queue);
  if (is_reused(own, fence)) return FenceState::kDone;
  const cudaError_t status = cudaEventQuery(entry(own, fence.sequence).end);
  if (status == cudaSuccess) return FenceState::kDone;
  return status == cudaErrorNotReady ? FenceState::kPending : FenceState::kFailed;
}

void CudaDevice::wait(Fence fence) {
  bind();
  {
    const std::lock_guard lock(mutex_);
    if (aborted_) fail(ErrorCode::kRankFailed, "{}", *aborted_);
  }
  Queue& own = queue(fence.queue);
  if (is_reused(own, fence)) return;
  const cudaError_t status = cudaEventSynchronize(entry(own, fence.sequence).end);
  if (status != cudaSuccess) fail(ErrorCode::kRankFailed, "{}", failure_text(fence, status));
}

void CudaDevice::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (!aborted_) aborted_ = reason;
}

std::span<std::byte> CudaDevice::host_view(InstanceId instance, std::int32_t reg,
                                           std::int32_t content) {
  return program_->host_bytes(instance, reg, content);
}

std::span<const Stamp> CudaDevice::stamps() {
  if (!options_.profile) return {};
  bind();
  SEXTANT_CUDA(cudaDeviceSynchronize());
  for (Queue& queue : queues_)
    for (Entry& entry : queue.ring) {
      note(entry);
      entry.run = RunId{};
    }
  return stamps_;
}

}  // namespace sextant
