// Operators with the versions of tensors that they read and make, updaters merged with the
// parameters they own.
#include "compiler/words/stage_builder.h"

#include "core/base/at.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sextant {

StageBuilder::StageBuilder(const LogicalGraph& graph, const std::vector<Placement>& placements,
                           const std::vector<int>& stage_of_layer,
                           const std::vector<int>& virtual_stage_of_layer,
                           const std::vector<Rate>& rates, const WordAssignment& words,
                           const BoxingTimes& times, BoxingPlans& plans)
    : placements_(placements),
      facts_(StageSource{graph, placements, stage_of_layer, virtual_stage_of_layer, rates, words,
                         times}),
      versions_(facts_, placements, plans, staged_) {}

StagedGraph StageBuilder::run(std::int64_t micro_batches, const StopPoll& stop) {
  staged_.placements = placements_;
  staged_.micro_batches = micro_batches;
  staged_.ops.reserve(facts_.graph().ops().size() * 3 / 2);
  staged_.tensors.reserve(facts_.graph().tensors().size() * 3 / 2);
  std::vector<OpId> untrained;
  for (std::size_t index = 0; index < facts_.graph().ops().size(); ++index) {
    stop();
    const OpId id(index);
    const LogicalOp& op = facts_.graph().op(id);
    if (!facts_.is_parameter(op)) {
      add_op(id);
      continue;
    }
    add_parameter(id);
    if (!facts_.has_updater(id)) untrained.push_back(id);
  }
  // State is read before its operator acts, so the owner of a parameter that nobody updates comes
  // after all readers.
  for (const OpId id : untrained) add_untrained_parameter(id);
  return std::move(staged_);
}

// The tensor exists from the start; its operator follows.
void StageBuilder::add_parameter(OpId id) {
  const LogicalOp& op = facts_.graph().op(id);
  const TensorId tensor = op.outputs[0];
  const int stage = facts_.stage_of(op);
  const NdSbp& words = facts_.words_of(id).outputs[0];
  TensorVersion version;
  version.tensor = staged_.tensors.add(
      {.name = facts_.logical(tensor).name,
       .global = facts_.logical(tensor).type,
       .words = words,
       .stage = stage,
       .producer = StagedOpId::none,
       .memory = facts_.is_master(tensor) ? MemoryClass::kOptimizer : MemoryClass::kParameters,
       .is_state = true});
  version.stage = stage;
  version.virtual_stage = facts_.virtual_stage_of(op.layer);
  version.state = facts_.state(words, stage, tensor);
  versions_.add(tensor, std::move(version));
}

void StageBuilder::add_untrained_parameter(OpId id) {
  append_op(id, 0, versions_.original(facts_.graph().op(id).outputs[0]));
}

void StageBuilder::add_op(OpId id) {
  if (const std::optional<TensorId> updated = facts_.updated_by(id))
    append_op(id, 1, versions_.original(*updated));
  else
    append_op(id, 0, StagedTensorId::none);
}

// `parameter`: the state tensor that output 0 is, or none.
void StageBuilder::append_op(OpId id, std::size_t first_input, StagedTensorId parameter) {
  const LogicalOp& op = facts_.graph().op(id);
  const OperatorDef& def = facts_.def_of(op);
  const OpWords& words = facts_.words_of(id);
  const StageReader reader{id, facts_.stage_of(op), op.layer, op.phase, facts_.rate_of(id)};
  StagedOp staged;
  for (std::size_t i = first_input; i < op.inputs.size(); ++i)
    staged.in.push_back(versions_.read(op.inputs[i], words.inputs[i], reader));
  staged.kind = op.kind;
  staged.role = op.role;
  staged.name = op.name;
  staged.attributes = op.attributes;
  staged.phase = op.phase;
  staged.rate = reader.rate;
  staged.stage = reader.stage;
  staged.layer = op.layer;
  staged.queue = def.on_host ? QueueRole::kHost : QueueRole::kCompute;
  const StagedOpId index = staged_.ops.next_key();
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (i == 0 && parameter.is_valid()) {
      staged_.tensors[parameter].producer = index;
      staged.out.push_back(parameter);
    } else {
      staged.out.push_back(add_output(id, i, index));
    }
  }
  if (const auto axis = facts_.ring_axis_of(id)) {
    staged.kind = to_string(Primitive::kShift);
    staged.attributes = {};
    staged.queue = QueueRole::kCollective;
    staged.communication = StagedCommunication{.primitive = Primitive::kShift,
                                               .reduce = ReduceOp::kSum,
                                               .group_axes = {*axis},
                                               .peer = StagedOpId::none,
                                               .side = Side::kBoth,
                                               .from = staged_.tensors[staged.in[0]].words,
                                               .to = staged_.tensors[staged.out[0]].words,
                                               .from_stage = reader.stage,
                                               .to_stage = reader.stage,
                                               .dtype = facts_.logical(op.outputs[0]).type.dtype};
  }
  staged_.ops.push_back(std::move(staged));
}

StagedTensorId StageBuilder::add_output(OpId id, std::size_t index, StagedOpId producer) {
  const LogicalOp& op = facts_.graph().op(id);
  const OperatorDef& def = facts_.def_of(op);
  const TensorId tensor = op.outputs[index];
  const NdSbp& words = facts_.words_of(id).outputs[index];
  const auto& states = def.state_outputs;
  const bool is_state = std::find(states.begin(), states.end(), index) != states.end();
  TensorVersion version;
  version.tensor = staged_.tensors.add(
      {.name = facts_.logical(tensor).name,
       .global = facts_.logical(tensor).type,
       .words = words,
       .stage = facts_.stage_of(op),
       .producer = producer,
       .memory = is_state ? MemoryClass::kOptimizer : facts_.memory_of_made(tensor, words),
       .is_state = is_state});
  version.stage = facts_.stage_of(op);
  version.virtual_stage = facts_.virtual_stage_of(op.layer);
  version.state = facts_.state(words, version.stage, tensor);
  if (facts_.rate_of(tensor) == Rate::kPerMicroBatch)
    version.readers = facts_.sums_itself(tensor, words) ? VersionReaders::kPerStep
                                                        : VersionReaders::kPerMicroBatch;
  versions_.add(tensor, std::move(version));
  return versions_.original(tensor);
}

}  // namespace sextant
