// Staged operators -> instances: which operators of a stage and layer act together, and in which
// order inside one act. Says nothing about ranks, sizes or time.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/base/ids.h"
#include "core/base/table.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace sextant {

// Where in a step an operator acts. Instances are made per (stage, layer, part), so that the two
// questions "when" and "how often" have one answer for all operators of an instance.
enum class StepPart : std::uint8_t {
  kBefore,         // once, before the first micro-batch needs it: copies of parameters
  kFetchForward,   // gathers of what lives in parts and is whole for the use of one micro-batch
  kFetchBackward,  // the same for backward
  kForward,        // F
  kInputGrad,      // B, and forward again inside backward
  kWeightGrad,     // W
  kPrompt,         // once, as soon as the last micro-batch has made the inputs: gradient reductions
  kLate,           // once, after the micro-batches: the optimizer and all that follows
  kTransfer,       // a half of a transfer between stages, an instance of its own
  kHost,           // a host actor, an instance of its own
};
inline constexpr std::size_t kNumStepParts = 10;
std::string_view to_string(StepPart part);
constexpr bool is_fetch(StepPart part) {
  return part == StepPart::kFetchForward || part == StepPart::kFetchBackward;
}

// An entry of Partition::instances.
using StagedInstanceId = Id<struct StagedInstanceTag>;

struct InstanceSpec {
  int stage = 0;
  int layer = 0;
  StepPart part = StepPart::kForward;
  Rate rate = Rate::kPerMicroBatch;
  std::vector<StagedOpId> ops;  // in execution order within an act
};

// Where an operator went.
struct ActorPlace {
  StagedInstanceId instance;
  std::int32_t actor = 0;  // in its block; of no meaning without an instance
};

class Partition {
 public:
  explicit Partition(const StagedGraph& graph);

  const StagedGraph& graph() const { return *graph_; }
  const Table<StagedInstanceId, InstanceSpec>& instances() const { return instances_; }
  // Instances of a stage, in order of their first operator.
  std::span<const StagedInstanceId> of_stage(int stage) const;
  StepPart part(StagedOpId op) const;
  ActorPlace place(StagedOpId op) const;
  // Operators that read a tensor, each once, in order.
  std::span<const StagedOpId> readers(StagedTensorId tensor) const;
  // Acts of the producer that fill one content of the tensor.
  std::int64_t acts_per_content(StagedTensorId tensor) const;

  // How often the longest way of late operators to this one goes from instance to instance, over
  // other stages too: 0 outside of the late part. What an operator needs from other instances has a
  // smaller number, so any order of them by generation can run.
  std::int32_t generation(StagedOpId op) const;

  // Of an operator and a tensor what walks over all runs of a step ask for, side by side: the
  // graph's own are large, and far from each other.
  QueueRole queue(StagedOpId op) const;
  std::span<const StagedTensorId> reads(StagedOpId op) const;  // its `in`
  std::span<const StagedTensorId> makes(StagedOpId op) const;  // its `out`
  bool is_state(StagedTensorId tensor) const;

  bool is_transfer(StagedOpId op) const;
  bool is_receive(StagedOpId op) const;

 private:
  void index_readers();
  void index_operands();
  Table<StagedOpId, bool> find_after() const;
  Table<StagedOpId, bool> find_feeding() const;
  bool is_prompt(const StagedOp& op, bool feeds_communication) const;
  StepPart part_of_micro_batch(const StagedOp& op) const;
  bool is_fetch(const StagedOp& op) const;
  void find_parts();
  void make_instances();
  void find_generations();
  StagedOpId completed_by(StagedOpId op) const;
  std::int64_t precedence(StagedOpId op, const InstanceSpec& instance, QueueRole queue) const;
  void order_ops(StagedInstanceId instance);
  void number_actors(const InstanceSpec& instance);

  const StagedGraph* graph_;
  Table<StagedTensorId, std::int32_t> first_reader_;  // one more at the end
  std::vector<StagedOpId> readers_;
  // Where what an operator reads and makes begins in `operands_`, and the end of all.
  struct OpFacts {
    std::int32_t first_read = 0, first_made = 0;
    QueueRole queue = QueueRole::kCompute;
    bool is_transfer = false;
  };
  Table<StagedOpId, OpFacts> op_facts_;
  std::vector<StagedTensorId> operands_;
  Table<StagedTensorId, char> is_state_;
  Table<StagedOpId, StepPart> parts_;
  Table<StagedInstanceId, InstanceSpec> instances_;
  Table<StagedOpId, ActorPlace> places_;
  Table<StagedOpId, std::int32_t> generations_;
  std::vector<std::vector<StagedInstanceId>> of_stage_;
};

}  // namespace sextant
