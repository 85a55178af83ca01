// Operators with their versions of tensors, the version that each reader takes, updaters merged
// with the parameters they own. How a missing version is boxed is in stage_boxing.cpp.
#include "compiler/words/stage_builder.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace sextant {
namespace {

bool is_updater(const LogicalOp& op, const OperatorDef& def) {
  return !op.inputs.empty() && !def.state_outputs.empty();
}

bool is_parameter(const LogicalOp& op, const OperatorDef& def) {
  return op.inputs.empty() && !def.state_outputs.empty();
}

}  // namespace

StageBuilder::StageBuilder(const LogicalGraph& graph, const std::vector<Placement>& placements,
                           const std::vector<int>& stage_of_layer,
                           const std::vector<int>& virtual_stage_of_layer,
                           const std::vector<Rate>& rates, const WordAssignment& words,
                           const BoxingTimes& times, BoxingPlans& plans)
    : graph_(graph),
      placements_(placements),
      stage_of_layer_(stage_of_layer),
      virtual_stage_of_layer_(virtual_stage_of_layer),
      rates_(rates),
      words_(words),
      times_(times),
      plans_(plans) {
  for (const Placement& placement : placements) {
    extents_.push_back(placement.hierarchy());
    meshes_.push_back(plans_.placement(placement));
  }
  for (const LogicalTensor& tensor : graph.tensors()) types_.push_back(plans_.type(tensor.type));
  facts_.resize(graph.tensors().size());
  note_reads();
}

StagedGraph StageBuilder::run(std::int64_t micro_batches, const StopPoll& stop) {
  staged_.placements = placements_;
  staged_.micro_batches = micro_batches;
  staged_.ops.reserve(graph_.ops().size() * 3 / 2);
  staged_.tensors.reserve(graph_.tensors().size() * 3 / 2);
  std::vector<OpId> untrained;
  for (std::size_t index = 0; index < graph_.ops().size(); ++index) {
    stop();
    const OpId id(index);
    const LogicalOp& op = graph_.op(id);
    if (!is_parameter(op, graph_.registry().get(op.kind))) {
      add_op(id);
      continue;
    }
    add_parameter(id);
    if (updater_of_.count(id) == 0) untrained.push_back(id);
  }
  // State is read before its operator acts, so the owner of a parameter that nobody updates comes
  // after all readers.
  for (const OpId id : untrained) add_untrained_parameter(id);
  return std::move(staged_);
}

void StageBuilder::note_reads() {
  for (std::size_t index = 0; index < graph_.ops().size(); ++index) {
    const OpId id(index);
    const LogicalOp& op = graph_.op(id);
    const bool updates = is_updater(op, graph_.registry().get(op.kind));
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const LogicalOp& from = producer(op.inputs[i]);
      if (updates && i == 0 && is_parameter(from, graph_.registry().get(from.kind))) {
        const OpId parameter = logical(op.inputs[i]).producer;
        const auto [known, is_new] = updater_of_.emplace(parameter, id);
        require(is_new, ErrorCode::kInfeasible, "parameter '{}' is updated by '{}' and by '{}'",
                from.name, graph_.op(known->second).name, op.name);
        updates_[id] = op.inputs[i];
        continue;
      }
      Facts& facts = facts_[op.inputs[i].index()];
      (rates_[index] == Rate::kPerStep ? facts.read_per_step : facts.read_per_micro_batch) = true;
    }
    for (const TensorId output : op.outputs) facts_[output.index()].is_late = is_late(id);
  }
}

bool StageBuilder::is_late(OpId id) const {
  const LogicalOp& op = graph_.op(id);
  if (rates_[id.index()] == Rate::kPerMicroBatch) return false;
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](TensorId input) {
    return rate_of(input) == Rate::kPerMicroBatch || facts_[input.index()].is_late;
  });
}

// The tensor exists from the start; its operator follows.
void StageBuilder::add_parameter(OpId id) {
  const LogicalOp& op = graph_.op(id);
  const TensorId tensor = op.outputs[0];
  const int stage = stage_of(op);
  const NdSbp& words = words_.of(id).outputs[0];
  staged_.tensors.push_back(
      {.name = logical(tensor).name,
       .global = logical(tensor).type,
       .words = words,
       .stage = stage,
       .producer = -1,
       .memory = is_master(tensor) ? MemoryClass::kOptimizer : MemoryClass::kParameters,
       .is_state = true});
  Version version;
  version.tensor = static_cast<StagedTensorIndex>(staged_.tensors.size() - 1);
  version.stage = stage;
  version.virtual_stage = virtual_stage_of(op.layer);
  version.state = MeshState(words, at(extents_, stage), logical(tensor).type.shape);
  facts_[tensor.index()].versions.push_back(std::move(version));
}

// Of mixed precision: forward and backward read a cast of it, only the optimizer reads it itself.
bool StageBuilder::is_master(TensorId parameter) const {
  bool is_cast = false;
  for (const LogicalGraph::Use& use : graph_.uses(parameter)) {
    const LogicalOp& op = graph_.op(use.op);
    if (op.phase == Phase::kOptimizer) continue;
    if (op.role != OperatorRole::kCast) return false;
    is_cast = true;
  }
  return is_cast;
}

void StageBuilder::add_untrained_parameter(OpId id) {
  append_op(id, 0, facts_[graph_.op(id).outputs[0].index()].versions[0].tensor);
}

void StageBuilder::add_op(OpId id) {
  const auto updated = updates_.find(id);
  if (updated == updates_.end())
    append_op(id, 0, -1);
  else
    append_op(id, 1, facts_[updated->second.index()].versions[0].tensor);
}

// `parameter`: the state tensor that output 0 is, or -1.
void StageBuilder::append_op(OpId id, std::size_t first_input, StagedTensorIndex parameter) {
  const LogicalOp& op = graph_.op(id);
  const OperatorDef& def = graph_.registry().get(op.kind);
  const OpWords& words = words_.of(id);
  const Reader reader{id, stage_of(op), op.layer, op.phase, rates_[id.index()]};
  StagedOp staged;
  for (std::size_t i = first_input; i < op.inputs.size(); ++i)
    staged.in.push_back(read(op.inputs[i], words.inputs[i], reader));
  staged.kind = op.kind;
  staged.role = op.role;
  staged.name = op.name;
  staged.attributes = op.attributes;
  staged.phase = op.phase;
  staged.rate = reader.rate;
  staged.stage = reader.stage;
  staged.layer = op.layer;
  staged.queue = def.on_host ? QueueRole::kHost : QueueRole::kCompute;
  const auto index = static_cast<StagedOpIndex>(staged_.ops.size());
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (i == 0 && parameter >= 0) {
      at(staged_.tensors, parameter).producer = index;
      staged.out.push_back(parameter);
    } else {
      staged.out.push_back(add_output(id, i, index));
    }
  }
  if (const auto axis = ring_axis_of(id)) {
    staged.kind = to_string(Primitive::kShift);
    staged.attributes = {};
    staged.queue = QueueRole::kCollective;
    staged.communication = StagedCommunication{.primitive = Primitive::kShift,
                                               .reduce = ReduceOp::kSum,
                                               .group_axes = {*axis},
                                               .peer = -1,
                                               .side = Side::kBoth,
                                               .from = at(staged_.tensors, staged.in[0]).words,
                                               .to = at(staged_.tensors, staged.out[0]).words,
                                               .from_stage = reader.stage,
                                               .to_stage = reader.stage,
                                               .dtype = logical(op.outputs[0]).type.dtype};
  }
  staged_.ops.push_back(std::move(staged));
}

std::optional<std::size_t> StageBuilder::ring_axis_of(OpId id) const {
  const LogicalOp& op = graph_.op(id);
  const OperatorDef& def = graph_.registry().get(op.kind);
  if (!def.has_ring) return std::nullopt;
  return ring_axis(def, {&logical(op.inputs[0]).type, 1}, {&logical(op.outputs[0]).type, 1},
                   op.attributes, words_.of(id), at(extents_, stage_of(op)));
}

StagedTensorIndex StageBuilder::add_output(OpId id, std::size_t index, StagedOpIndex producer) {
  const LogicalOp& op = graph_.op(id);
  const OperatorDef& def = graph_.registry().get(op.kind);
  const TensorId tensor = op.outputs[index];
  const NdSbp& words = words_.of(id).outputs[index];
  const auto& states = def.state_outputs;
  const bool is_state = std::find(states.begin(), states.end(), index) != states.end();
  staged_.tensors.push_back(
      {.name = logical(tensor).name,
       .global = logical(tensor).type,
       .words = words,
       .stage = stage_of(op),
       .producer = producer,
       .memory = is_state ? MemoryClass::kOptimizer : memory_of_made(tensor, words),
       .is_state = is_state});
  Version version;
  version.tensor = static_cast<StagedTensorIndex>(staged_.tensors.size() - 1);
  version.stage = stage_of(op);
  version.virtual_stage = virtual_stage_of(op.layer);
  version.state = MeshState(words, at(extents_, version.stage), logical(tensor).type.shape);
  if (rate_of(tensor) == Rate::kPerMicroBatch)
    version.readers = sums_itself(tensor, words) ? Readers::kPerStep : Readers::kPerMicroBatch;
  facts_[tensor.index()].versions.push_back(std::move(version));
  return facts_[tensor.index()].versions.back().tensor;
}

// Of what the operator itself makes.
MemoryClass StageBuilder::memory_of_made(TensorId id, const NdSbp& made) const {
  const Facts& facts = facts_[id.index()];
  if (rate_of(id) == Rate::kPerStep || !facts.read_per_step || facts.read_per_micro_batch)
    return memory_of(id);
  return sums_itself(id, made) ? MemoryClass::kGradients : MemoryClass::kCommunication;
}

// Of its values, not of their sum over the step.
MemoryClass StageBuilder::memory_of(TensorId id) const {
  if (rate_of(id) == Rate::kPerMicroBatch) return MemoryClass::kActivations;
  return facts_[id.index()].is_late ? MemoryClass::kGradients : MemoryClass::kParameters;
}

// The words in which values made in others are summed over the step.
NdSbp StageBuilder::words_of_sum(TensorId id, const NdSbp& made) const {
  const auto given = times_.sum_in.find(id);
  if (given == times_.sum_in.end()) return made;
  NdSbp words = given->second;
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (made[axis].is_partial() && words[axis].is_broadcast()) words[axis] = made[axis];
  return words;
}

// Only sums over the step are read, and they are taken in the words in which values are made.
bool StageBuilder::sums_itself(TensorId id, const NdSbp& made) const {
  const Facts& facts = facts_[id.index()];
  if (!facts.read_per_step || facts.read_per_micro_batch) return false;
  const auto& extents = at(extents_, stage_of(producer(id)));
  const Shape& shape = logical(id).type.shape;
  return MeshState(words_of_sum(id, made), extents, shape) == MeshState(made, extents, shape);
}

StagedTensorIndex StageBuilder::read(TensorId id, const NdSbp& words, const Reader& reader) {
  const MeshState wanted(words, at(extents_, reader.stage), logical(id).type.shape);
  const std::size_t version = find_or_make(id, wanted, reader);
  return facts_[id.index()].versions[version].tensor;
}

StageBuilder::Readers StageBuilder::readers_of(TensorId id, const Reader& reader) const {
  if (reader.rate == Rate::kPerStep && rate_of(id) == Rate::kPerMicroBatch)
    return Readers::kPerStep;
  if (reader.rate == Rate::kPerStep || times_.per_use.count(id) == 0) return lasting_readers(id);
  return reader.phase == Phase::kForward ? Readers::kForward : Readers::kBackward;
}

std::optional<std::size_t> StageBuilder::find(TensorId id, const MeshState& wanted, Readers readers,
                                              const Reader& reader) const {
  const std::vector<Version>& versions = facts_[id.index()].versions;
  const auto found = std::find_if(versions.begin(), versions.end(), [&](const Version& version) {
    return version.stage == reader.stage && version.readers == readers && version.state == wanted &&
           (!is_per_use(readers) || version.layer == reader.layer);
  });
  if (found == versions.end()) return std::nullopt;
  return static_cast<std::size_t>(found - versions.begin());
}

std::size_t StageBuilder::find_or_make(TensorId id, const MeshState& wanted, const Reader& reader) {
  const Readers readers = readers_of(id, reader);
  if (readers == Readers::kPerStep) add_accumulator(id);
  if (is_per_use(readers)) bring_to_stage(id, reader);
  std::optional<std::size_t> version = find(id, wanted, readers, reader);
  if (!version && is_per_use(readers)) version = find(id, wanted, lasting_readers(id), reader);
  if (!version) version = make(id, wanted, readers, reader);
  raise_phase(id, *version, reader.phase);
  return *version;
}

}  // namespace sextant
