// Where the bytes of one run's operands lie: resolved once per (program, run), the same each step.
// Devices read this instead of walking blocks and links themselves.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace sextant {

struct BufferRef {
  InstanceId instance;  // that owns the register
  std::int32_t reg = 0;
  std::int32_t content = 0;  // within the step
  Bytes offset;              // in the arena
  const Register* info = nullptr;
};

struct ActorCall {
  const Actor* actor = nullptr;
  std::vector<BufferRef> in, out;
  // Per output: this act adds to the content instead of overwriting it.
  std::vector<bool> accumulate;
};

// Resolves the runs of one program. Keeps an index of links and rates, so that the cost of a call
// does not grow with the program. `graph` outlives it.
//
//   content read   = act / consume_for of the edge or link
//   content written = act / acts_per_content of the frame; state: always content 0
//   address        = slot_offsets[slot_of_content[content]] + register offset
class OperandResolver {
 public:
  // Throws Error(kBadInput) naming the operand when a register is read without an edge, or a port
  // that no link, or more than one, reaches.
  OperandResolver(const PhysicalGraph& graph, ProgramId program);

  // The calls of a run, in order.
  std::vector<ActorCall> calls(RunId run) const;
  // One act of one actor, act counted within the step; also for host actors, which have no run.
  ActorCall call(InstanceId instance, std::int32_t actor, std::int32_t act) const;
  BufferRef buffer(InstanceId instance, std::int32_t reg, std::int32_t content) const;

  // For every operand of an actor, inputs first: visit(instance that owns the register, register,
  // rate, writes); act a uses content a / rate, or content 0 if rate is 0 (state).
  template <typename Visit>
  void for_each_operand(InstanceId instance, std::int32_t actor, const Visit& visit) const {
    const auto a = static_cast<std::size_t>(actor);
    const Instance& reader = program_->instances[instance];
    const BlockInputs& inputs = blocks_[reader.block.index()];
    for (std::size_t i = inputs.first_of_actor[a]; i < inputs.first_of_actor[a + 1]; ++i) {
      const auto [owner, source] = source_of(instance, inputs, i);
      visit(owner, source.reg, is_state(owner, source.reg) ? 0 : source.consume_for, false);
    }
    const Block& block = graph_->block_of(reader);
    for (const std::int32_t out : block.actors[a].out) {
      visit(instance, out, is_state(instance, out) ? 0 : acts_per_content(block, out), true);
    }
  }

 private:
  // Register behind an input operand, and how many acts one of its contents serves.
  struct Source {
    InstanceId from_instance;  // none: the reader's own
    std::int32_t reg = 0;
    std::int32_t consume_for = 1;
  };
  // Of one block: the input operands of all its actors in a row, registers resolved, ports not yet.
  struct BlockInputs {
    std::vector<std::size_t> first_of_actor;
    std::vector<Source> sources;
    std::vector<bool> is_port;
  };

  BlockInputs inputs_of(const Block& block) const;
  // Input `index` of the reader's block, ports followed to the register behind them.
  std::pair<InstanceId, Source> source_of(InstanceId reader, const BlockInputs& inputs,
                                          std::size_t index) const;
  bool is_state(InstanceId instance, std::int32_t reg) const;
  static std::int32_t acts_per_content(const Block& block, std::int32_t reg);
  void index_links();

  const PhysicalGraph* graph_;
  const RankProgram* program_;
  std::vector<BlockInputs> blocks_;         // empty for blocks the program does not use
  std::vector<std::size_t> first_port_of_;  // by instance, into ports_
  std::vector<Source> ports_;
};

// The calls of a single run; builds the index of its program each time.
std::vector<ActorCall> resolve_calls(const PhysicalGraph& graph, ProgramId program, RunId run);

}  // namespace sextant
