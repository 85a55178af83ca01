// One rank's program made ready to execute: addresses, kernels and groups of every run, first
// contents of its state. Nothing here runs.
#pragma once

#include "actor/calls/kernel_contexts.h"
#include "actor/calls/operands.h"
#include "actor/hosts/rank_blocks.h"
#include "backends/cpu/collectives.h"
#include "backends/cpu/kernels/shared/kernel.h"
#include "core/graphs/physical_graph.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// One member of a fused actor.
struct PreparedMember {
  KernelContext context;
  Kernel kernel = nullptr;
};

// One act of one actor at its addresses, the same each step.
struct PreparedCall {
  KernelContext context;
  Kernel kernel = nullptr;  // nullptr for communications and fused actors run by members
  std::vector<PreparedMember> members;
  // Of communications: the n-th of `per_step` that this group does in a step.
  GroupId group;
  std::int64_t index_in_step = 0, per_step = 0;
  MemberBuffers buffers;
  // Contents that this act reads or writes (index into PreparedProgram::lifetimes).
  std::vector<std::size_t> lifetimes;
};

struct PreparedRun {
  QueueRole queue = QueueRole::kCompute;
  std::int32_t act = 0;
  std::vector<PreparedCall> calls;
};

// Uses of one content of a register in one step, to know when its bytes are free. (Not of its
// frame: guards order the uses of bytes, and a neighbour in the frame may live longer.)
struct Lifetime {
  std::int64_t uses = 0;
  std::span<std::byte> bytes;         // to be poisoned after the last use
  std::atomic<std::int64_t> done{0};  // over all steps
};

class PreparedProgram {
 public:
  // Throws Error(kDevice) for an operator without kernel, naming it. With `poison`, lifetimes are
  // filled in. No byte of the arena is touched. `blocks`: how ranks are spread over processes;
  // nullptr: all are in this one. `threads`: of the rank's kernels, which take workspace for each.
  PreparedProgram(const PhysicalGraph& graph, Rank rank, const KernelTable& kernels,
                  std::uint64_t seed, bool poison, const RankBlocks* blocks = nullptr,
                  std::int64_t threads = 1);

  // Memory that the rank takes beside its arena: tensors inside fused actors, the workspace of each
  // queue, and its share of what its communications put aside (one of each group at a time).
  Bytes beside_arena() const;
  std::int64_t workspace(QueueRole role) const {
    return workspaces_[static_cast<std::size_t>(role)];
  }
  // First contents; poison in the rest of the arena.
  void fill();

  const PreparedRun& run(RunId id) const { return runs_[id.index()]; }
  // The run, for its act in this step. Its queue has one act of it at a time.
  const PreparedRun& begin(RunId id, std::int64_t step);
  bool uses(QueueRole role) const;
  std::span<std::byte> register_bytes(InstanceId instance, std::int32_t reg,
                                      std::int32_t content) const;
  // The act is over: poisons the contents of which it was the last use in this step.
  void release(const PreparedCall& call);

 private:
  struct ContentKey {
    InstanceId instance;
    std::int32_t reg = 0, content = 0;
    auto operator<=>(const ContentKey&) const = default;
  };
  using RegisterKey = std::pair<InstanceId, std::int32_t>;

  void allocate();
  void count_workspace(const PreparedRun& run, const KernelTable& kernels);
  void count_scratch(const Communication& communication, GroupId group);
  void resolve(const KernelTable& kernels);
  PreparedCall prepare(const ActorCall& call, const Run& run, const KernelTable& kernels);
  void prepare_communication(PreparedCall& prepared);
  void finish_communications();
  void prepare_members(PreparedCall& prepared, const KernelTable& kernels);
  // Lifetimes: which calls use which content, and what is free after the last of them.
  void count_uses();
  RegisterKey written_register(const BufferRef& buffer) const;
  std::set<RegisterKey> registers_not_to_poison() const;
  // First contents.
  void fill_state();

  const PhysicalGraph& graph_;
  const Rank rank_;
  const RankProgram& program_;
  const std::uint64_t seed_;
  const bool poison_;
  const RankBlocks* const blocks_;
  const std::int64_t threads_;
  OperandResolver resolver_;
  KernelContexts contexts_;
  std::unique_ptr<std::byte[]> allocation_;
  std::byte* arena_ = nullptr;
  // Tensors inside fused actors. One such actor acts at a time, so all share the bytes.
  std::unique_ptr<std::byte[]> inner_allocation_;
  std::byte* inner_ = nullptr;
  std::map<GroupId, std::int64_t> communications_of_;  // per step
  std::array<std::int64_t, kNumQueueRoles> workspaces_{};
  std::map<GroupId, Bytes> scratch_;  // this rank's share
  std::vector<PreparedRun> runs_;
  std::vector<std::vector<std::int32_t>> roots_;  // of views, by block and register; with poison
  std::unique_ptr<Lifetime[]> lifetimes_;
};

}  // namespace sextant
