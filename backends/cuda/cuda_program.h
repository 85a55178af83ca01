// One rank's program made ready on a GPU: addresses and kernels of every run, first contents of its
// state. Nothing here runs.
#pragma once

#include "actor/calls/host_copies.h"
#include "actor/calls/kernel_contexts.h"
#include "actor/calls/operands.h"
#include "backends/cuda/channels_last.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_context.h"
#include "backends/cuda/cuda_exchange.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/cuda_memory.h"
#include "backends/cuda/ranks/program_company.h"
#include "backends/cuda/step_number.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace sextant {

// A kernel and the actors of its run that it is of.
struct CudaKernelOfRun {
  std::unique_ptr<CudaKernel> kernel;
  std::int32_t first_actor = 0, num_actors = 1;
  std::vector<std::int32_t> joined = {};  // further actors, anywhere behind these
};

// What a loader fills and that takes long to bring: copied by the card's copy engine while the step
// before computes. `host` and `near` are those of turn 0, of CudaProgram::kHostSteps that are
// `host_stride` and `near_stride` bytes apart.
struct EarlyCopy {
  const std::byte* host = nullptr;
  std::byte* near = nullptr;  // on the device
  std::int64_t host_stride = 0, near_stride = 0, bytes = 0;
};

struct CudaRun {
  QueueRole queue = QueueRole::kCompute;
  std::int32_t position = 0;  // among the runs of its queue in one step
  std::vector<CudaKernelOfRun> kernels;
  // In order, where the run communicates; it has no kernels then.
  std::vector<std::unique_ptr<CudaCommunication>> communications;
  std::vector<EarlyCopy> early;                          // copies_in read what these bring
  std::vector<HostCopyArguments> copies_in, copies_out;  // before and behind the kernels
  std::vector<RunId> after;                              // HostCopiesOfRun
  // The first of its queue, in a step, that changes a state: it waits for copies of states.
  bool is_first_to_change_state = false;
};

class CudaProgram {
 public:
  // What host actors fill and read exists for so many steps side by side, in mapped host memory.
  static constexpr std::int32_t kHostSteps = 2;

  // Allocates nothing. Without an `exchange` throws Error(kDevice) for communications, by name.
  CudaProgram(const PhysicalGraph& graph, Rank rank, const CudaOptions& options,
              const CudaExchange* exchange);
  ~CudaProgram();
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  // What it will take on a card, arena included.
  CudaRankMemory memory_needed() const;
  void allocate();
  // What was read by mistake gives NaN, not a lucky zero.
  void poison();
  // Once. Throws Error(kDevice) for an operator without kernel, by name.
  void make_kernels(CudaContext& device);
  // First contents, on the default stream.
  void fill_state(std::uint64_t seed);

  ProgramId id() const { return graph_.ranks[rank_].program; }
  std::size_t num_runs() const { return runs_.size(); }
  const CudaRun& run(RunId id) const { return runs_[id.index()]; }
  // Runs of one step on the queue.
  std::int64_t runs_per_step(QueueRole role) const;
  // In the arena; throws Error(kInternal) unless the arena is host-visible.
  std::span<std::byte> arena_bytes(InstanceId instance, std::int32_t reg,
                                   std::int32_t content) const;
  // The values of a state register, on the card, row-major.
  std::span<std::byte> state_bytes(InstanceId instance, std::int32_t reg) const;
  // What a host actor fills or reads in this step.
  std::span<std::byte> host_bytes(InstanceId instance, std::int32_t reg, std::int32_t content,
                                  std::int64_t step) const;
  const std::string& actor_name(RunId id) const;  // of the run's first actor
  // In the order of issue, by launch: those that start together.
  const std::vector<std::vector<CudaCommunication*>>& communications() const {
    return communications_;
  }

 private:
  std::size_t arena_size() const;
  bool changes_state(RunId id) const;
  void find_first_changes();
  void make_communications(const CudaExchange* exchange);
  void lay_out_staging(const CudaExchange& exchange);
  double modelled_seconds(RunId id) const;
  void find_company(const CudaExchange& exchange);
  std::int32_t processors_for(RunId id) const;
  void place_communications(RunId id);
  HostCopyArguments copy_arguments(std::int32_t buffer, const CudaContext& device,
                                   bool to_host) const;
  void find_early();
  void make_copies(RunId id, const CudaContext& device);
  KernelContext context_of(const ActorCall& call, const Run& run);
  std::optional<std::int64_t> number_of(const BufferRef& content);
  std::vector<KernelContext> contexts_of_members(const KernelContext& fused);
  // By the first of the calls that a kernel is of; the others are taken.
  struct KernelTogether {
    std::unique_ptr<CudaKernel> kernel;
    std::vector<std::size_t> taken;
  };
  struct KernelsTogether {
    std::map<std::size_t, KernelTogether> kernels;
    std::vector<bool> is_taken;
  };
  static KernelsTogether kernels_together(std::span<const KernelContext> calls,
                                          const CudaKernelTable& table, CudaContext& device);
  void make_kernels_of(RunId id, const CudaKernelTable& table, CudaContext& device);
  std::byte* address(const BufferRef& buffer) const { return arena_ + buffer.offset.value; }

  const PhysicalGraph& graph_;
  const Rank rank_;
  const RankProgram& program_;
  OperandResolver resolver_;
  const ChannelsLast channels_last_;
  KernelContexts contexts_;
  std::map<std::tuple<InstanceId, std::int32_t, std::int32_t>, std::int64_t> content_numbers_;
  const HostCopies copies_;
  const bool host_visible_;
  std::byte* arena_ = nullptr;    // device, or mapped host memory when host-visible
  std::byte* inner_ = nullptr;    // tensors inside fused actors; one such actor acts at a time
  std::byte* host_ = nullptr;     // mapped: the same address on both sides; kHostSteps times
  std::byte* staging_ = nullptr;  // of communications, by queue
  std::byte* near_ = nullptr;     // of early copies; kHostSteps times
  Bytes staging_size_, communicators_size_;
  std::map<std::int32_t, Bytes> early_;  // by host buffer: where it is in the memory of one step
  Bytes near_size_;                      // of one step
  std::vector<CudaRun> runs_;
  std::vector<std::vector<CudaCommunication*>> communications_;
  ProgramCompany company_;  // empty: nothing communicates
  // By run, of each of its communications: staging, and what the exchange wants beside it.
  struct StagingPlace {
    Bytes staging, aside;
  };
  std::vector<std::vector<StagingPlace>> staging_places_;
};

}  // namespace sextant
