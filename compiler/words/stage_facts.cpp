// Facts by one pass over the logical graph.
#include "compiler/words/stage_facts.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {

StageFacts::StageFacts(const StageSource& source) : source_(source) {
  for (const Placement& placement : source.placements) extents_.push_back(placement.hierarchy());
  reads_.resize(source.graph.tensors().size());
  for (std::size_t index = 0; index < source.graph.ops().size(); ++index) note_reads(OpId(index));
}

void StageFacts::note_reads(OpId id) {
  const LogicalOp& op = source_.graph.op(id);
  const bool updates = is_updater(op);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const LogicalOp& from = producer(op.inputs[i]);
    if (updates && i == 0 && is_parameter(from)) {
      const OpId parameter = logical(op.inputs[i]).producer;
      const auto [known, is_new] = updater_of_.emplace(parameter, id);
      require(is_new, ErrorCode::kInfeasible, "parameter '{}' is updated by '{}' and by '{}'",
              from.name, source_.graph.op(known->second).name, op.name);
      updates_[id] = op.inputs[i];
      continue;
    }
    Reads& reads = reads_[op.inputs[i]];
    (rate_of(id) == Rate::kPerStep ? reads.per_step : reads.per_micro_batch) = true;
  }
  for (const TensorId output : op.outputs) reads_[output].is_late = comes_late(id);
}

bool StageFacts::comes_late(OpId id) const {
  const LogicalOp& op = source_.graph.op(id);
  if (rate_of(id) == Rate::kPerMicroBatch) return false;
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    return rate_of(input) == Rate::kPerMicroBatch || is_late(input);
  });
}

std::optional<TensorId> StageFacts::updated_by(OpId id) const {
  const auto found = updates_.find(id);
  return found == updates_.end() ? std::nullopt : std::optional(found->second);
}

bool StageFacts::is_master(TensorId parameter) const {
  bool is_cast = false;
  for (const LogicalGraph::Use& use : source_.graph.uses(parameter)) {
    const LogicalOp& op = source_.graph.op(use.op);
    if (op.phase == Phase::kOptimizer) continue;
    if (op.role != OperatorRole::kCast) return false;
    is_cast = true;
  }
  return is_cast;
}

MemoryClass StageFacts::memory_of_made(TensorId id, const NdSbp& made) const {
  const Reads& reads = reads_[id];
  if (rate_of(id) == Rate::kPerStep || !reads.per_step || reads.per_micro_batch)
    return memory_of(id);
  return sums_itself(id, made) ? MemoryClass::kGradients : MemoryClass::kCommunication;
}

MemoryClass StageFacts::memory_of(TensorId id) const {
  if (rate_of(id) == Rate::kPerMicroBatch) return MemoryClass::kActivations;
  return is_late(id) ? MemoryClass::kGradients : MemoryClass::kParameters;
}

NdSbp StageFacts::words_of_sum(TensorId id, const NdSbp& made) const {
  const auto given = source_.times.sum_in.find(id);
  if (given == source_.times.sum_in.end()) return made;
  NdSbp words = given->second;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (made[axis].is_partial() && words[axis].is_broadcast()) words[axis] = made[axis];
  return words;
}

bool StageFacts::sums_itself(TensorId id, const NdSbp& made) const {
  const Reads& reads = reads_[id];
  if (!reads.per_step || reads.per_micro_batch) return false;
  const int stage = stage_of(producer(id));
  return state(words_of_sum(id, made), stage, id) == state(made, stage, id);
}

std::optional<std::size_t> StageFacts::ring_axis_of(OpId id) const {
  const LogicalOp& op = graph().op(id);
  const OperatorDef& def = def_of(op);
  if (!def.has_ring) return std::nullopt;
  return ring_axis(def, {&logical(op.inputs[0]).type, 1}, {&logical(op.outputs[0]).type, 1},
                   op.attributes, words_of(id), extents_of(stage_of(op)));
}

}  // namespace sextant
