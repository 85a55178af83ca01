// A step of a program as one CUDA graph.
#pragma once

#include "actor/device.h"
#include "actor/tape.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_program.h"

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

namespace sextant {

class CudaDevice;

// The streams of a program's queues; nullptr for those that it does not use.
using CudaStreams = std::array<cudaStream_t, kNumQueueRoles>;

// Captured once; launches of it are in order on one stream, and each is whole before the next
// begins, so waits on the step before are not in it.
class CudaGraph {
 public:
  CudaGraph(const Tape& tape, const PhysicalGraph& graph, const CudaProgram& program,
            CudaContext& context, const CudaStreams& streams);
  ~CudaGraph();
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  QueueRole origin() const { return origin_; }
  void launch(cudaStream_t stream) const;

 private:
  QueueRole origin_ = QueueRole::kCompute;
  cudaGraphExec_t executable_ = nullptr;
};

class CudaReplay final : public Replay {
 public:
  CudaReplay(CudaDevice& device, std::unique_ptr<CudaGraph> graph)
      : device_(device), graph_(std::move(graph)) {}
  void launch(std::int64_t step) override;

 private:
  CudaDevice& device_;
  const std::unique_ptr<CudaGraph> graph_;
};

}  // namespace sextant
