// A step of a program as one CUDA graph.
#pragma once

#include "actor/protocol/device.h"
#include "actor/tapes/tape.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_exchange.h"
#include "backends/cuda/cuda_program.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

namespace sextant {

class CudaDevice;

// The streams of a program's queues; nullptr for those that it does not use.
using CudaStreams = std::array<cudaStream_t, kNumQueueRoles>;

// Captured once; launches of it are in order on one stream, and each is whole before the next
// begins, so waits on the step before are not in it.
class CudaGraph {
 public:
  // `exchange`: of programs that communicate, and waits for no other rank (is_alone). `copied`:
  // what changes a state waits for the last record of it before the launch; null: for nothing.
  CudaGraph(const Tape& tape, const PhysicalGraph& graph, const CudaProgram& program,
            CudaContext& context, const CudaStreams& streams, CudaExchange* exchange,
            cudaEvent_t copied);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  QueueRole origin() const { return origin_; }
  // Enqueues the step; its first queue is that stream.
  void launch(cudaStream_t stream) const;

 private:
  QueueRole origin_ = QueueRole::kCompute;
  cudaGraphExec_t executable_ = nullptr;
};

// The device keeps the graph.
class CudaReplay final : public Replay {
 public:
  explicit CudaReplay(CudaDevice& device) : device_(device) {}
  void launch(std::int64_t step) override;

 private:
  CudaDevice& device_;
};

}  // namespace sextant
