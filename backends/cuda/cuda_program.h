// One rank's program made ready on a GPU: addresses and kernels of every run, first contents of its
// state. Nothing here runs.
#pragma once

#include "actor/kernel_contexts.h"
#include "actor/operands.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_kernel.h"
#include "core/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

struct CudaRun {
  QueueRole queue = QueueRole::kCompute;
  std::vector<std::unique_ptr<CudaKernel>> kernels;
};

class CudaProgram {
 public:
  // Throws Error(kDevice) for an operator without kernel and for communications, by name.
  CudaProgram(const PhysicalGraph& graph, Rank rank, CudaContext& device,
              const CudaOptions& options);
  ~CudaProgram();
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  const CudaRun& run(RunId id) const { return runs_[id.index()]; }
  bool uses(QueueRole role) const;
  // Memory of the host; throws Error(kInternal) for a register that no host actor touches, unless
  // the arena is host-visible.
  std::span<std::byte> host_bytes(InstanceId instance, std::int32_t reg,
                                  std::int32_t content) const;
  const std::string& actor_name(RunId id) const;  // of the run's first actor

 private:
  using FrameKey = std::pair<InstanceId, std::int32_t>;

  void find_host_frames();
  void allocate();
  void resolve(CudaContext& device);
  void allocate_inner();
  std::byte* address(const BufferRef& buffer) const;
  std::vector<KernelContext> contexts_of(RunId run);
  void fill_state(std::uint64_t seed);

  const PhysicalGraph& graph_;
  const Rank rank_;
  const RankProgram& program_;
  OperandResolver resolver_;
  KernelContexts contexts_;
  const bool host_visible_;
  std::byte* arena_ = nullptr;   // device, or mapped host memory when host-visible
  std::byte* inner_ = nullptr;   // tensors inside fused actors; one such actor acts at a time
  std::byte* pinned_ = nullptr;  // mapped host memory: the same address on both sides
  // Frames that host actors touch -> offset in `pinned_` of their slot 0; slots follow each other.
  std::map<FrameKey, std::int64_t> host_frames_;
  std::int64_t pinned_size_ = 0;
  std::vector<CudaRun> runs_;
};

}  // namespace sextant
