// Streams and events under the actor protocol. Waits become cudaStreamWaitEvent, so the host never
// waits for device work inside launch.
#include "backends/cuda/devices/cuda_device.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/ranks/queue_barrier.h"
#include "core/base/check.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace sextant {
namespace {

// The code of the build: sm_90, and PTX that later cards translate.
constexpr int kOldestCapability = 90;

}  // namespace

CudaDevice::CudaDevice(const CudaOptions& options, CudaExchange* exchange,
                       std::chrono::milliseconds timeout)
    : options_(options), exchange_(exchange), timeout_(timeout) {
  cudaDeviceProp properties{};
  SEXTANT_CUDA(cudaGetDeviceProperties(&properties, options.device));
  require(properties.major * 10 + properties.minor >= kOldestCapability, ErrorCode::kDevice,
          "{} has compute capability {}.{}; this build needs 9.0 or later", properties.name,
          properties.major, properties.minor);
  spec_.name = properties.name;
  spec_.queues = {QueueRole::kCompute,
                  QueueRole::kCollective,
                  QueueRole::kTransferOutForward,
                  QueueRole::kTransferOutBackward,
                  QueueRole::kTransferInForward,
                  QueueRole::kTransferInBackward,
                  QueueRole::kCopyIn,
                  QueueRole::kCopyOut};
  // What registers may hold; kernels cover less each, and refuse the rest by name.
  spec_.dtypes.assign(kAllDTypes.begin(), kAllDTypes.end());
  spec_.has_memory = true;
  spec_.host_steps = CudaProgram::kHostSteps;
  // Members of a communication that meet on the host do so in every step.
  spec_.capture =
      options.graphs && !options.profile && (exchange == nullptr || exchange->is_alone());
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(options_.device);
  cudaDeviceSynchronize();
  captured_.reset();
  fences_.reset();
  for (const Queue& queue : queues_) {
    if (queue.merge != nullptr) cudaEventDestroy(queue.merge);
    if (queue.stream != nullptr) cudaStreamDestroy(queue.stream);
  }
  early_.reset();
  stamps_.reset();
  if (step_begun_ != nullptr) cudaEventDestroy(step_begun_);
}

std::string CudaDevice::who() const { return fmt::format("rank {} ({})", rank_.value, spec_.name); }

void CudaDevice::bind() const { SEXTANT_CUDA(cudaSetDevice(options_.device)); }

void CudaDevice::create_queue(QueueRole role) {
  if (program_->runs_per_step(role) == 0) return;
  Queue& made = queue(role);
  // Where both want the next free multiprocessor, peers wait for communication.
  int least = 0, greatest = 0;
  SEXTANT_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  SEXTANT_CUDA(cudaStreamCreateWithPriority(&made.stream, cudaStreamNonBlocking,
                                            role == QueueRole::kCompute ? least : greatest));
  SEXTANT_CUDA(cudaEventCreateWithFlags(&made.merge, cudaEventDisableTiming));
  fences_->add_queue(role);
}

void CudaDevice::prepare(const PhysicalGraph& graph, Rank rank) {
  resolve(graph, rank);
  if (!options_.host_visible) {  // else the arena is not on the card
    std::size_t free = 0, total = 0;
    SEXTANT_CUDA(cudaMemGetInfo(&free, &total));
    const CudaRankMemory needed = memory_needed();
    require_room(*needed.program, rank, needed.extra, spec_.name,
                 Bytes(static_cast<std::int64_t>(free)), Bytes(static_cast<std::int64_t>(total)));
  }
  allocate();
  make_kernels();
  fill();
}

void CudaDevice::resolve(const PhysicalGraph& graph, Rank rank) {
  require(program_ == nullptr, ErrorCode::kUsage, "rank {} was prepared twice", rank.value);
  bind();
  rank_ = rank;
  graph_ = &graph;
  program_ = std::make_unique<CudaProgram>(graph, rank, options_, exchange_);
  states_ = std::make_unique<DeviceStates>(*program_, rank);
}

void CudaDevice::come_to(CommonWait stage) {
  if (options_.at_common_wait) options_.at_common_wait(rank_, stage);
}

void CudaDevice::meet(std::string_view what) {
  if (options_.watch == nullptr) return;
  options_.watch->enter(rank_, what, patience());
}

std::chrono::milliseconds CudaDevice::patience() const { return options_.patience(timeout_); }

void CudaDevice::met() {
  if (options_.watch != nullptr) options_.watch->leave(rank_);
}

void CudaDevice::allocate() {
  bind();
  come_to(CommonWait::kPrepare);
  program_->allocate();
  meet("with memory");
}

void CudaDevice::make_kernels() {
  met();
  bind();
  context_ = std::make_unique<CudaContext>(options_);
  program_->make_kernels(*context_);
  fences_ = std::make_unique<LaunchFences>(*program_, exchange_, rank_, who());
  for (const QueueRole role : spec_.queues) create_queue(role);
  early_ = std::make_unique<EarlyCopies>(*program_);
  SEXTANT_CUDA(cudaEventCreateWithFlags(&step_begun_, cudaEventDisableTiming));
  if (options_.profile) stamps_ = std::make_unique<LaunchStamps>(*program_);
  meet("with kernels");
}

void CudaDevice::fill() {
  bind();
  program_->fill_state(options_.seed);
  // First contents were copied on the default stream, which the queues do not wait for.
  SEXTANT_CUDA(cudaDeviceSynchronize());
}

// Code that is loaded, and memory that is allocated, while a kernel waits for a peer may wait for
// that kernel, and hold up the peer's thread meanwhile. So all that a step runs is loaded, and
// every communication has run once, before the first step.
void CudaDevice::connect(HostAgreement& group) {
  bind();
  group_ = &group;
  met();
  if (exchange_ == nullptr) return;
  come_to(CommonWait::kConnect);
  const AgreementWatch::Wait meeting(options_.watch, rank_, "connecting", timeout_);
  std::vector<CudaCommunication*> all;
  for (const auto& launch : program_->communications())
    all.insert(all.end(), launch.begin(), launch.end());
  cudaStream_t stream = nullptr;
  SEXTANT_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  if (exchange_->is_alone()) load_kernels(stream);
  exchange_->connect(all, group);
  if (exchange_->is_alone()) connect_peers(stream);
  SEXTANT_CUDA(cudaStreamDestroy(stream));
}

// A graph of all kernels, made and never launched.
void CudaDevice::load_kernels(cudaStream_t stream) {
  SEXTANT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  cudaGraph_t graph = nullptr;
  try {
    context_->begin_step(0, stream);
    context_->begin_next_step(stream);
    for (std::size_t i = 0; i < program_->num_runs(); ++i) {
      const CudaRun& run = program_->run(RunId(i));
      enqueue_copies(run.copies_in, stream);
      for (const CudaKernelOfRun& kernel : run.kernels) kernel.kernel->enqueue(stream);
      for (const auto& communication : run.communications) {
        communication->enqueue_before(stream);
        communication->enqueue_after(stream);
      }
      enqueue_copies(run.copies_out, stream);
    }
  } catch (...) {
    cudaStreamEndCapture(stream, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    throw;
  }
  SEXTANT_CUDA(cudaStreamEndCapture(stream, &graph));
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  SEXTANT_CUDA(status);
  SEXTANT_CUDA(cudaGraphExecDestroy(executable));
}

// In the order of issue on one stream, which the dry run proves to end. What it writes means
// nothing.
void CudaDevice::connect_peers(cudaStream_t stream) {
  for (const auto& launch : program_->communications()) {
    std::vector<CudaExchange::Part> parts;
    for (CudaCommunication* communication : launch) parts.push_back({communication, 0, stream});
    exchange_->enqueue(parts);
  }
  cudaEvent_t end = nullptr;
  SEXTANT_CUDA(cudaEventCreateWithFlags(&end, cudaEventDisableTiming));
  SEXTANT_CUDA(cudaEventRecord(end, stream));
  const cudaError_t status =
      fences_->wait([&] { return end; },
                    [] { return std::string("communications that connect the ranks"); }, watch());
  cudaEventDestroy(end);
  SEXTANT_CUDA(status);
  exchange_->note_replay(rank_, -1);  // none of a step
  program_->poison();
}

// --- launches ---

void CudaDevice::launch(std::span<const Launch> group, std::span<Fence> done) {
  bind();
  if (step_ < 0) fences_->begin_at(group.front().step);
  if (group.size() == 1)
    done[0] = enqueue(group[0]);
  else
    enqueue_together(group, done);
}

void CudaDevice::wait_on_stream(Queue& own, Fence fence) {
  if (const cudaEvent_t event = fences_->event_of(fence))
    SEXTANT_CUDA(cudaStreamWaitEvent(own.stream, event, 0));
}

void CudaDevice::wait_for_last_launches(Queue& own) {
  for (const QueueRole role : fences_->used())
    if (&queue(role) != &own && fences_->launched(role) > 0)
      wait_on_stream(own, {role, fences_->launched(role) - 1});
}

// All queues read one number, so a step begins when all of the one before is over.
void CudaDevice::begin_step(Queue& own, std::int64_t step) {
  if (step != step_) {
    wait_for_last_launches(own);
    context_->begin_step(step, own.stream);
    SEXTANT_CUDA(cudaEventRecord(step_begun_, own.stream));
    step_ = step;
  } else if (own.begun_step != step) {
    SEXTANT_CUDA(cudaStreamWaitEvent(own.stream, step_begun_, 0));
  }
  own.begun_step = step;
}

void CudaDevice::enqueue_waits(const Launch& launch) {
  const CudaRun& run = program_->run(launch.run);
  Queue& own = queue(run.queue);
  begin_step(own, launch.step);
  for (const Fence& fence : launch.waits) {
    SEXTANT_INVARIANT(fence.sequence < fences_->launched(fence.queue),
                      "rank {}: run {} waits for launch {} of queue {}, which was not issued",
                      rank_.value, launch.run.value, fence.sequence, to_string(fence.queue));
    wait_on_stream(own, fence);
  }
  for (const RunId earlier : run.after)
    wait_on_stream(own, fences_->fence_of(earlier, launch.step));
  if (run.is_first_to_change_state && states_->copied() != nullptr)
    SEXTANT_CUDA(cudaStreamWaitEvent(own.stream, states_->copied(), 0));
}

CudaDevice::Entry& CudaDevice::slot_of(const Launch& launch, Fence fence) {
  Entry& slot = fences_->entry(fence);
  reuse(slot);
  slot.run = launch.run;
  slot.step = launch.step;
  return slot;
}

Fence CudaDevice::enqueue(const Launch& launch) {
  const CudaRun& run = program_->run(launch.run);
  const cudaStream_t stream = queue(run.queue).stream;
  enqueue_waits(launch);
  const Fence fence{run.queue, fences_->launched(run.queue)};
  Entry& slot = slot_of(launch, fence);
  enqueue_work(run, slot, stream);
  SEXTANT_CUDA(cudaEventRecord(slot.end, stream));
  fences_->note_launched(run.queue, fence.sequence + 1);
  return fence;
}

// fork: all queues wait for all queues and for the waits of all | members | join: likewise, and
// only then the ends of all, so that a fence of one is a fence of all (actor/bytes/byte_order).
void CudaDevice::enqueue_together(std::span<const Launch> group, std::span<Fence> done) {
  std::vector<QueueRole> queues;
  std::vector<Entry*> slots;
  std::vector<CudaExchange::Part> parts;
  for (std::size_t i = 0; i < group.size(); ++i) {
    const CudaRun& run = program_->run(group[i].run);
    Queue& own = queue(run.queue);
    enqueue_waits(group[i]);
    const std::int64_t before = std::count(queues.begin(), queues.end(), run.queue);
    done[i] = {run.queue, fences_->launched(run.queue) + before};
    slots.push_back(&slot_of(group[i], done[i]));
    queues.push_back(run.queue);
    for (const auto& communication : run.communications)
      parts.push_back({communication.get(), fences_->number_of(group[i].step), own.stream});
    require(run.kernels.empty(), ErrorCode::kInternal, "a launch group holds communications only");
  }
  merge(queues);
  for (std::size_t i = 0; i < group.size(); ++i) {
    copy_in(group[i].run, group[i].step, queue(queues[i]).stream);
    mark(*slots[i], 0, queue(queues[i]).stream);
  }
  exchange_->enqueue(parts);
  for (std::size_t i = 0; i < group.size(); ++i) {
    mark(*slots[i], 1, queue(queues[i]).stream);
    enqueue_copies(program_->run(group[i].run).copies_out, queue(queues[i]).stream);
  }
  merge(queues);
  for (std::size_t i = 0; i < group.size(); ++i) {
    SEXTANT_CUDA(cudaEventRecord(slots[i]->end, queue(queues[i]).stream));
    fences_->note_launched(queues[i], done[i].sequence + 1);
  }
}

void CudaDevice::merge(std::span<const QueueRole> queues) {
  for (const QueueWait& wait : barrier_of(queues)) {
    SEXTANT_CUDA(cudaEventRecord(queue(wait.awaited).merge, queue(wait.awaited).stream));
    SEXTANT_CUDA(cudaStreamWaitEvent(queue(wait.waiter).stream, queue(wait.awaited).merge, 0));
  }
}

void CudaDevice::enqueue_copies(const std::vector<HostCopyArguments>& copies, cudaStream_t stream) {
  for (const HostCopyArguments& copy : copies) SEXTANT_CUDA(enqueue_host_copy(copy, stream));
}

void CudaDevice::copy_in(RunId id, std::int64_t step, cudaStream_t stream) {
  early_->bring(id, step, stream);
  enqueue_copies(program_->run(id).copies_in, stream);
  early_->note_taken(id, step, stream);
}

void CudaDevice::bring_all_early(std::int64_t step, cudaStream_t reader) {
  const std::int64_t before = step - CudaProgram::kHostSteps;
  const bool is_replayed = before >= 0 && fences_->is_replayed(before);
  early_->bring_all(step, reader, is_replayed ? fences_->replay_end(before) : nullptr);
}

void CudaDevice::mark(Entry& slot, std::size_t index, cudaStream_t stream) {
  if (stamps_ != nullptr) LaunchStamps::mark(slot, index, stream);
}

void CudaDevice::enqueue_work(const CudaRun& run, Entry& slot, cudaStream_t stream) {
  copy_in(slot.run, slot.step, stream);
  mark(slot, 0, stream);
  for (std::size_t k = 0; k < run.kernels.size(); ++k) {
    run.kernels[k].kernel->enqueue(stream);
    mark(slot, k + 1, stream);
  }
  for (const auto& communication : run.communications) {
    const CudaExchange::Part part{communication.get(), fences_->number_of(slot.step), stream};
    exchange_->enqueue(std::span(&part, 1));
  }
  if (!run.communications.empty()) mark(slot, 1, stream);
  enqueue_copies(run.copies_out, stream);
}

// The launch this event stood for must be over before the event is recorded again.
void CudaDevice::reuse(Entry& entry) {
  if (!entry.run.is_valid()) return;
  wait_if_pending(entry.end);
  if (stamps_ != nullptr) stamps_->note(entry);
}

// --- a step at once ---

// All ranks replay, or none: one that is captured and one that is not would enqueue the same
// communications, but a rank that cannot capture says so here and not in the middle of a step.
std::unique_ptr<Replay> CudaDevice::capture(const Tape& tape) {
  if (!spec_.capture || program_->num_runs() == 0) return nullptr;
  bind();
  CudaStreams streams{};
  for (const QueueRole role : fences_->used())
    streams[static_cast<std::size_t>(role)] = queue(role).stream;
  std::unique_ptr<CudaGraph> graph;
  if (exchange_ == nullptr) {
    graph = std::make_unique<CudaGraph>(tape, *graph_, *program_, *context_, streams, nullptr,
                                        states_->copied());
  } else {
    for (const QueueRole role : fences_->used())
      if (const std::int64_t launched = fences_->launched(role); launched > 0)
        wait({role, launched - 1});
    try {
      graph = std::make_unique<CudaGraph>(tape, *graph_, *program_, *context_, streams, exchange_,
                                          states_->copied());
    } catch (const Error& error) {
      context_->note(fmt::format("rank {}: no graph of a step: {}", rank_.value, error.what()));
    }
    if (!all_can_capture(graph != nullptr)) return nullptr;
  }
  const std::lock_guard lock(graph_mutex_);
  captured_ = std::move(graph);
  drop_if_aborted();
  return std::make_unique<CudaReplay>(*this);
}

bool CudaDevice::all_can_capture(bool own) {
  come_to(CommonWait::kCapture);
  const AgreementWatch::Wait meeting(options_.watch, rank_, "whose steps can be graphs", timeout_);
  const std::byte can{static_cast<unsigned char>(own ? 1 : 0)};
  const std::vector<HostBytes> all = group_.load()->all_gather(std::span(&can, 1));
  return std::all_of(all.begin(), all.end(),
                     [](const HostBytes& bytes) { return bytes.front() == std::byte{1}; });
}

void CudaDevice::drop_graph() {
  const std::unique_lock lock(graph_mutex_, std::chrono::seconds(2));
  if (lock) captured_.reset();  // else its thread is inside a launch of it, and drops it behind
}

// Under graph_mutex_, by who makes or launches the graph: whoever aborted may have come before it
// was there or could not take it from under its launch, and NCCL's abort waits for it to go.
void CudaDevice::drop_if_aborted() {
  if (is_aborted()) captured_.reset();
  check_not_aborted();
}

void CudaDevice::close() {
  met();  // one that failed while it was prepared
  bind();
  come_to(CommonWait::kClose);
  const AgreementWatch::Wait meeting(options_.watch, rank_, "closing", patience());
  if (exchange_ != nullptr) exchange_->close(rank_);
}

void CudaDevice::launch_graph(std::int64_t step) {
  bind();
  const cudaEvent_t end = fences_->replay_end(step);
  // Of a step that many back, or never recorded. Before the graph is held: whoever gives up waiting
  // drops it.
  wait_if_pending(end);
  const std::lock_guard lock(graph_mutex_);
  drop_if_aborted();
  const CudaGraph& graph = *captured_;
  Queue& origin = queue(graph.origin());
  if (!fences_->is_replayed(step)) {
    wait_for_last_launches(origin);
    fences_->replay_from(step);
  }
  bring_all_early(step, origin.stream);
  graph.launch(origin.stream);
  drop_if_aborted();
  SEXTANT_CUDA(cudaEventRecord(end, origin.stream));
  if (exchange_ != nullptr) exchange_->note_replay(rank_, fences_->number_of(step));
  step_ = step;
  fences_->note_replayed(step);
}

// --- completion ---

FenceState CudaDevice::state(Fence fence) {
  bind();
  const cudaEvent_t event = fences_->event_of(fence);
  if (event == nullptr) return FenceState::kDone;
  const cudaError_t status = query_event(event);
  if (status == cudaErrorNotReady) return FenceState::kPending;
  return status == cudaSuccess && !context_->fault() ? FenceState::kDone : FenceState::kFailed;
}

bool CudaDevice::is_aborted() {
  const std::lock_guard lock(mutex_);
  return aborted_.has_value();
}

void CudaDevice::check_not_aborted() {
  const std::lock_guard lock(mutex_);
  if (aborted_) fail(ErrorCode::kRankFailed, "{}", *aborted_);
}

void CudaDevice::wait(Fence fence) {
  bind();
  check_not_aborted();
  cudaError_t status = cudaSuccess;
  if (exchange_ != nullptr)
    status = fences_->wait(fence, watch());
  else if (const cudaEvent_t event = fences_->event_of(fence))
    status = cudaEventSynchronize(event);
  if (status != cudaSuccess)
    fail(ErrorCode::kRankFailed, "{}", fences_->failure_text(fence, status));
  if (const auto fault = context_->fault()) fail(ErrorCode::kBadInput, "{}", *fault);
}

LaunchFences::Watch CudaDevice::watch() {
  return {timeout_, [this] { check_not_aborted(); },
          [this](const std::string& why) { give_up(why); }};
}

// What is on the streams must not wait for peers any longer, or nothing of this rank can end.
void CudaDevice::give_up(const std::string& why) {
  const std::string reason = who() + ": " + why;
  abort(reason);
  fail(ErrorCode::kRankFailed, "{}", reason);
}

// Two that may wait for each other, so both at once: NCCL's abort ends the kernels that wait for
// peers and then waits for graphs that hold its calls; a launch of a graph, or its end, may wait
// for those kernels.
void CudaDevice::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!aborted_) aborted_ = reason;
  }
  if (HostAgreement* const group = group_.load()) group->abort(reason);
  if (exchange_ == nullptr) return;
  exchange_->announce_abort(reason);
  std::thread ending([&] { exchange_->abort(reason, rank_); });
  drop_graph();
  ending.join();
}

std::span<std::byte> CudaDevice::host_view(InstanceId instance, std::int32_t reg,
                                           std::int32_t content) {
  return program_->arena_bytes(instance, reg, content);
}

std::span<std::byte> CudaDevice::host_view_of_step(InstanceId instance, std::int32_t reg,
                                                   std::int32_t content, std::int64_t step) {
  return program_->host_bytes(instance, reg, content, step);
}

void CudaDevice::read_state(InstanceId instance, std::int32_t reg, std::span<std::byte> to) {
  bind();
  states_->read(instance, reg, to);
}

void CudaDevice::write_state(InstanceId instance, std::int32_t reg,
                             std::span<const std::byte> from) {
  bind();
  states_->write(instance, reg, from);
}

std::shared_ptr<StateCopies> CudaDevice::make_state_copies(std::vector<StateToCopy> states) {
  require(step_ < 0, ErrorCode::kInternal,
          "rank {}: copies of states are made before the first launch", rank_.value);
  bind();
  return states_->make_copies(options_.device, states);
}

std::span<const Stamp> CudaDevice::stamps() {
  if (stamps_ == nullptr) return {};
  bind();
  SEXTANT_CUDA(cudaDeviceSynchronize());
  for (const QueueRole role : fences_->used())
    for (Entry& entry : fences_->ring(role)) {
      stamps_->note(entry);
      entry.run = RunId{};
    }
  return stamps_->all();
}

}  // namespace sextant
