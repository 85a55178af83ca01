// Capture of a recorded step: queues are forks of the first one's stream, fences become edges.
//
//   origin: number of the step -> fork -> ... launches ...            -> join -> end
//   others:                       fork -> ... wait(edge), launches ... -> join
#include "backends/cuda/devices/cuda_replay.h"

#include "backends/cuda/cuda_check.h"
#include "backends/cuda/devices/cuda_device.h"
#include "backends/cuda/ranks/queue_barrier.h"
#include "core/base/check.h"

#include <set>
#include <span>
#include <vector>

namespace sextant {
namespace {

// Events of a capture stand for places in the graph and for nothing afterwards.
class CaptureEvents {
 public:
  ~CaptureEvents() {
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
  }
  cudaEvent_t record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    SEXTANT_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    events_.push_back(event);
    SEXTANT_CUDA(cudaEventRecord(event, stream));
    return event;
  }

 private:
  std::vector<cudaEvent_t> events_;
};

class Capture {
 public:
  Capture(const Tape& tape, const PhysicalGraph& graph, const CudaProgram& program,
          CudaContext& context, const CudaStreams& streams, CudaExchange* exchange,
          cudaEvent_t copied)
      : tape_(tape),
        program_(program),
        context_(context),
        streams_(streams),
        exchange_(exchange),
        copied_(copied) {
    // One rank stands for all of the program: what a rank launches, and what its launches wait for,
    // are the program's; classes differ in whom they meet.
    Rank recorded;
    for (std::size_t e = 0; e < tape.entries.size(); ++e) {
      const Rank rank = tape.entries[e].rank;
      if (graph.ranks[rank].program != program.id()) continue;
      if (!recorded.is_valid()) recorded = rank;
      if (rank == recorded) entries_.push_back(static_cast<std::int32_t>(e));
    }
    require(entries_.size() == program.num_runs(), ErrorCode::kInternal,
            "a tape of {} launches for a program of {}", entries_.size(), program.num_runs());
    event_of_run_.resize(program.num_runs());
    find_awaited();
  }

  QueueRole origin() const { return entry(entries_.front()).queue; }

  cudaGraph_t run() {
    const cudaStream_t stream = stream_of(origin());
    cudaGraph_t graph = nullptr;
    // Other threads may query and wait for events meanwhile.
    SEXTANT_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    try {
      enqueue_all(stream);
    } catch (...) {
      cudaStreamEndCapture(stream, &graph);
      if (graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    SEXTANT_CUDA(cudaStreamEndCapture(stream, &graph));
    return graph;
  }

 private:
  const TapeEntry& entry(std::int32_t e) const {
    return tape_.entries[static_cast<std::size_t>(e)];
  }
  cudaStream_t stream_of(QueueRole queue) const {
    return streams_[static_cast<std::size_t>(queue)];
  }

  // Runs of this step that a launch on another queue waits for.
  template <typename Visit>
  void for_each_wait(const TapeEntry& waiting, const Visit& visit) const {
    for (std::int32_t w = 0; w < waiting.num_waits; ++w) {
      const TapeWait& wait = tape_.waits[static_cast<std::size_t>(waiting.first_wait + w)];
      if (wait.lag == 0) visit(entry(wait.entry).run);
    }
    for (const RunId run : program_.run(waiting.run).after) visit(run);
  }

  void find_awaited() {
    for (const std::int32_t e : entries_)
      for_each_wait(entry(e), [&](RunId run) { awaited_.insert(run); });
  }

  void enqueue_all(cudaStream_t origin) {
    context_.begin_next_step(origin);
    const cudaEvent_t fork = events_.record(origin);
    for (const cudaStream_t stream : streams_)
      if (stream != nullptr && stream != origin) SEXTANT_CUDA(cudaStreamWaitEvent(stream, fork, 0));
    for (std::size_t first = 0; first < entries_.size();) {
      std::size_t end = first + 1;
      const std::int32_t group = entry(entries_[first]).launch_group;
      while (group >= 0 && end < entries_.size() && entry(entries_[end]).launch_group == group)
        ++end;
      enqueue_launch(std::span(entries_).subspan(first, end - first));
      first = end;
    }
    for (const cudaStream_t stream : streams_)
      if (stream != nullptr && stream != origin)
        SEXTANT_CUDA(cudaStreamWaitEvent(origin, events_.record(stream), 0));
  }

  void enqueue_waits(const TapeEntry& launched) {
    for_each_wait(launched, [&](RunId run) {
      SEXTANT_CUDA(cudaStreamWaitEvent(stream_of(launched.queue), event_of_run_[run.index()], 0));
    });
    if (copied_ != nullptr && program_.run(launched.run).is_first_to_change_state)
      SEXTANT_CUDA(cudaStreamWaitEvent(stream_of(launched.queue), copied_, cudaEventWaitExternal));
  }

  // As the device launches one by one: a group's queues wait for each other before and behind it.
  void enqueue_launch(std::span<const std::int32_t> entries) {
    std::vector<QueueRole> queues;
    std::vector<CudaExchange::Part> parts;
    for (const std::int32_t e : entries) {
      const TapeEntry& launched = entry(e);
      enqueue_waits(launched);
      queues.push_back(launched.queue);
      for (const auto& communication : program_.run(launched.run).communications)
        parts.push_back({communication.get(), 0, stream_of(launched.queue)});
    }
    if (entries.size() > 1) merge(queues);
    for (const std::int32_t e : entries) {
      const CudaRun& run = program_.run(entry(e).run);
      const cudaStream_t stream = stream_of(entry(e).queue);
      for (const HostCopyArguments& copy : run.copies_in)
        SEXTANT_CUDA(enqueue_host_copy(copy, stream));
      for (const CudaKernelOfRun& kernel : run.kernels) kernel.kernel->enqueue(stream);
    }
    enqueue_parts(parts, entries.size() > 1);
    for (const std::int32_t e : entries)
      for (const HostCopyArguments& copy : program_.run(entry(e).run).copies_out)
        SEXTANT_CUDA(enqueue_host_copy(copy, stream_of(entry(e).queue)));
    if (entries.size() > 1) merge(queues);
    for (const std::int32_t e : entries)
      if (awaited_.contains(entry(e).run))
        event_of_run_[entry(e).run.index()] = events_.record(stream_of(entry(e).queue));
  }

  // Those of one run follow each other; those of a launch group start together.
  void enqueue_parts(std::span<const CudaExchange::Part> parts, bool together) {
    if (parts.empty()) return;
    if (together) return exchange_->enqueue(parts);
    for (const CudaExchange::Part& part : parts) exchange_->enqueue(std::span(&part, 1));
  }

  void merge(std::span<const QueueRole> queues) {
    for (const QueueWait& wait : barrier_of(queues))
      SEXTANT_CUDA(
          cudaStreamWaitEvent(stream_of(wait.waiter), events_.record(stream_of(wait.awaited)), 0));
  }

  const Tape& tape_;
  const CudaProgram& program_;
  CudaContext& context_;
  const CudaStreams& streams_;
  CudaExchange* exchange_;
  const cudaEvent_t copied_;
  std::vector<std::int32_t> entries_;  // of this program, in the order of issue
  std::set<RunId> awaited_;
  std::vector<cudaEvent_t> event_of_run_;
  CaptureEvents events_;
};

}  // namespace

CudaGraph::CudaGraph(const Tape& tape, const PhysicalGraph& graph, const CudaProgram& program,
                     CudaContext& context, const CudaStreams& streams, CudaExchange* exchange,
                     cudaEvent_t copied) {
  Capture capture(tape, graph, program, context, streams, exchange, copied);
  origin_ = capture.origin();
  const cudaGraph_t captured = capture.run();
  const cudaError_t status = cudaGraphInstantiate(
      &executable_, captured, exchange == nullptr ? 0 : cudaGraphInstantiateFlagUseNodePriority);
  cudaGraphDestroy(captured);
  SEXTANT_CUDA(status);
  SEXTANT_CUDA(cudaGraphUpload(executable_, streams[static_cast<std::size_t>(origin_)]));
}

CudaGraph::~CudaGraph() { cudaGraphExecDestroy(executable_); }

void CudaGraph::launch(cudaStream_t stream) const {
  SEXTANT_CUDA(cudaGraphLaunch(executable_, stream));
}

void CudaReplay::launch(std::int64_t step) { device_.launch_graph(step); }

}  // namespace sextant
