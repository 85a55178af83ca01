// Versions of tensors, boxing inserted where a reader wants other words, updaters merged with the
// parameters they own.
#include "compiler/stage_builder.h"

#include "compiler/at.h"
#include "core/check.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

namespace sextant {
namespace {

// Order of the phases within a step; sinks come last.
int place_in_step(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return 0;
    case Phase::kRecompute:
      return 1;
    case Phase::kInputGrad:
      return 2;
    case Phase::kWeightGrad:
      return 3;
    case Phase::kOptimizer:
    case Phase::kCommunication:
      return 4;
    case Phase::kData:
      return 5;
  }
  return 5;
}

bool is_backward(Phase phase) { return phase == Phase::kInputGrad || phase == Phase::kWeightGrad; }

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
                           const BoxingTimes& times, const NetworkModel* network)
    : graph_(graph),
      placements_(placements),
      stage_of_layer_(stage_of_layer),
      virtual_stage_of_layer_(virtual_stage_of_layer),
      rates_(rates),
      words_(words),
      times_(times),
      plans_(network != nullptr ? BoxingObjective::kTime : BoxingObjective::kBytes, network) {
  for (const Placement& placement : placements) {
    extents_.push_back(placement.hierarchy());
    meshes_.push_back(plans_.placement(placement));
  }
  for (const LogicalTensor& tensor : graph.tensors()) types_.push_back(plans_.type(tensor.type));
  facts_.resize(graph.tensors().size());
  note_reads();
}

StagedGraph StageBuilder::run(std::int64_t micro_batches) {
  staged_.placements = placements_;
  staged_.micro_batches = micro_batches;
  staged_.ops.reserve(graph_.ops().size() * 3 / 2);
  staged_.tensors.reserve(graph_.tensors().size() * 3 / 2);
  std::vector<OpId> untrained;
  for (std::size_t index = 0; index < graph_.ops().size(); ++index) {
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
    if (op.kind != "cast") return false;
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

// Another stage gets what all uses there start from, in the words of the original, once.
void StageBuilder::bring_to_stage(TensorId id, const Reader& reader) {
  const Readers lasting = lasting_readers(id);
  const std::vector<Version>& versions = facts_[id.index()].versions;
  const bool is_there = std::any_of(versions.begin(), versions.end(), [&](const Version& version) {
    return version.stage == reader.stage && version.readers == lasting;
  });
  if (!is_there) make(id, versions.front().state, lasting, reader);
}

// Sums over the step where the producer itself cannot: others read its values in every
// micro-batch, or the sum is taken in other words.
void StageBuilder::add_accumulator(TensorId id) {
  std::vector<Version>& versions = facts_[id.index()].versions;
  if (std::any_of(versions.begin(), versions.end(),
                  [](const Version& version) { return version.readers == Readers::kPerStep; }))
    return;
  const LogicalOp& op = producer(id);
  const Version original = versions.front();
  const Reader reader{logical(id).producer, original.stage, op.layer, op.phase,
                      Rate::kPerMicroBatch};
  Chain chain{.id = id,
              .reader = &reader,
              .memory = MemoryClass::kGradients,
              .tensor = original.tensor,
              .stage = original.stage,
              .virtual_stage = original.virtual_stage,
              .made_by = {}};
  BoxingStep copy;
  copy.kind = BoxingKind::kLocal;
  copy.from = copy.to = at(staged_.tensors, original.tensor).words;
  const NdSbp& made = at(staged_.tensors, original.tensor).words;
  const MeshState sum(words_of_sum(id, made), at(extents_, original.stage), logical(id).type.shape);
  std::vector<BoxingStep> steps = plan(id, original, original.stage, sum).steps;
  if (steps.empty()) steps = {copy};
  for (std::size_t i = 0; i < steps.size(); ++i)
    append_step(chain, steps[i], i + 1 == steps.size());
  Version accumulator = original;
  accumulator.tensor = chain.tensor;
  accumulator.state = sum;
  accumulator.readers = Readers::kPerStep;
  versions.push_back(std::move(accumulator));
}

std::size_t StageBuilder::make(TensorId id, const MeshState& wanted, Readers readers,
                               const Reader& reader) {
  std::vector<Version>& versions = facts_[id.index()].versions;
  std::optional<std::size_t> best;
  const BoxingPlan* best_plan = nullptr;
  // Equal words pass between single pairs of ranks, so they win where costs are equal.
  const auto cost = [&](const BoxingPlan& plan, const Version& from) {
    return std::tuple(plan.time, plan.total_bytes, plan.steps.size(), from.state != wanted);
  };
  const auto serves = [&](const Version& version) {
    if (!is_per_use(readers)) return version.readers == readers;
    return version.stage == reader.stage &&
           (version.readers == lasting_readers(id) ||
            (version.readers == readers && version.layer == reader.layer));
  };
  for (std::size_t i = 0; i < versions.size(); ++i) {
    if (!serves(versions[i])) continue;
    const BoxingPlan& candidate = plan(id, versions[i], reader.stage, wanted);
    if (best && cost(candidate, versions[i]) >= cost(*best_plan, versions[*best])) continue;
    best = i;
    best_plan = &candidate;
  }
  const Version source = versions[*best];
  const bool crosses = source.stage != reader.stage;
  if (crosses) require_direction(id, source, reader);
  raise_phase(id, *best, reader.phase);
  Chain chain{.id = id,
              .reader = &reader,
              .rate = readers == Readers::kPerMicroBatch || is_per_use(readers)
                          ? Rate::kPerMicroBatch
                          : Rate::kPerStep,
              .before_transfer = crosses,
              .memory = readers == Readers::kPerStep ? MemoryClass::kGradients : memory_of(id),
              .tensor = source.tensor,
              .stage = source.stage,
              .virtual_stage = source.virtual_stage,
              .made_by = {}};
  const auto add_version = [&](std::int32_t made_from) {
    Version made;
    made.tensor = chain.tensor;
    made.stage = chain.stage;
    made.virtual_stage = chain.virtual_stage;
    made.state = MeshState(at(staged_.tensors, chain.tensor).words, at(extents_, chain.stage),
                           logical(id).type.shape);
    made.readers = readers;
    made.layer = reader.layer;
    made.made_by = std::move(chain.made_by);
    made.source = made_from;
    versions.push_back(std::move(made));
  };
  for (std::size_t i = 0; i < best_plan->steps.size(); ++i) {
    const bool is_last = i + 1 == best_plan->steps.size();
    const bool leaves = !is_last && best_plan->steps[i + 1].kind == BoxingKind::kTransfer;
    append_step(chain, best_plan->steps[i], is_last || leaves);
    // What is about to leave the stage serves readers there as well.
    if (leaves) add_version(static_cast<std::int32_t>(*best));
  }
  add_version(crosses ? -1 : static_cast<std::int32_t>(*best));
  return versions.size() - 1;
}

void StageBuilder::append_step(Chain& chain, const BoxingStep& step, bool is_last) {
  if (step.kind == BoxingKind::kTransfer) return append_transfer(chain, step, is_last);
  const bool local = step.kind == BoxingKind::kLocal;
  StagedOp op = boxing_op(chain, local ? "box_local" : std::string(to_string(step.primitive)));
  op.queue = local ? QueueRole::kCompute : QueueRole::kCollective;
  if (!local)
    op.communication = StagedCommunication{.primitive = step.primitive,
                                           .reduce = step.reduce,
                                           .group_axes = step.group_axes,
                                           .peer = -1,
                                           .side = Side::kBoth,
                                           .from = at(staged_.tensors, chain.tensor).words,
                                           .to = step.to,
                                           .from_stage = chain.stage,
                                           .to_stage = chain.stage,
                                           .dtype = logical(chain.id).type.dtype};
  op.in = {chain.tensor};
  chain.tensor = add_boxed(chain, step.to, is_last);
  op.out = {chain.tensor};
  if (!chain.before_transfer)
    chain.made_by.push_back(static_cast<StagedOpIndex>(staged_.ops.size()));
  staged_.ops.push_back(std::move(op));
}

void StageBuilder::append_transfer(Chain& chain, const BoxingStep& step, bool is_last) {
  const int from = chain.stage, to = chain.reader->stage;
  const int virtual_to = virtual_stage_of(chain.reader->layer);
  const bool forward = chain.virtual_stage < virtual_to;
  const auto send_index = static_cast<StagedOpIndex>(staged_.ops.size());
  StagedCommunication halves{.primitive = Primitive::kTransfer,
                             .reduce = step.reduce,
                             .group_axes = {},
                             .peer = send_index + 1,
                             .side = Side::kSend,
                             .from = at(staged_.tensors, chain.tensor).words,
                             .to = step.to,
                             .from_stage = from,
                             .to_stage = to,
                             .dtype = logical(chain.id).type.dtype};
  StagedOp send = boxing_op(chain, "transfer");
  send.name = logical(chain.id).name + ".send";
  send.phase = Phase::kCommunication;
  send.queue = forward ? QueueRole::kTransferOutForward : QueueRole::kTransferOutBackward;
  send.in = {chain.tensor};
  send.communication = halves;
  staged_.ops.push_back(std::move(send));

  chain.before_transfer = false;
  chain.made_by.clear();
  chain.stage = to;
  chain.virtual_stage = virtual_to;
  halves.side = Side::kReceive;
  halves.peer = send_index;
  StagedOp receive = boxing_op(chain, "transfer");
  receive.name = logical(chain.id).name + ".receive";
  receive.phase = Phase::kCommunication;
  receive.queue = forward ? QueueRole::kTransferInForward : QueueRole::kTransferInBackward;
  receive.communication = std::move(halves);
  chain.tensor = add_boxed(chain, step.to, is_last);
  receive.out = {chain.tensor};
  staged_.ops.push_back(std::move(receive));
}

// Where the value starts, boxing belongs to its producer; where it arrives, to its first reader.
StagedOp StageBuilder::boxing_op(const Chain& chain, const std::string& kind) const {
  StagedOp op;
  op.kind = kind;
  op.name = logical(chain.id).name + "." + kind;
  op.rate = chain.rate;
  op.stage = chain.stage;
  const LogicalOp& from = producer(chain.id);
  op.layer = chain.before_transfer ? from.layer : chain.reader->layer;
  op.phase = chain.before_transfer ? from.phase : chain.reader->phase;
  const bool late = facts_[chain.id.index()].is_late ||
                    (chain.rate == Rate::kPerStep && rate_of(chain.id) == Rate::kPerMicroBatch);
  if (late || op.phase == Phase::kData) op.phase = Phase::kOptimizer;
  return op;
}

StagedTensorIndex StageBuilder::add_boxed(const Chain& chain, const NdSbp& words, bool is_last) {
  const LogicalTensor& tensor = logical(chain.id);
  std::string name = fmt::format("{} as {}", tensor.name, to_string(words));
  if (chain.stage != stage_of(producer(chain.id))) name += fmt::format(" on stage {}", chain.stage);
  // The operator that makes it is appended next, except that a receive half follows its send half.
  staged_.tensors.push_back({.name = std::move(name),
                             .global = tensor.type,
                             .words = words,
                             .stage = chain.stage,
                             .producer = static_cast<StagedOpIndex>(staged_.ops.size()),
                             .memory = is_last ? chain.memory : MemoryClass::kCommunication,
                             .is_state = false});
  return static_cast<StagedTensorIndex>(staged_.tensors.size() - 1);
}

// Within a micro-batch, forward values go to later virtual stages and gradients to earlier ones.
void StageBuilder::require_direction(TensorId id, const Version& source,
                                     const Reader& reader) const {
  if (rate_of(id) == Rate::kPerStep || reader.rate == Rate::kPerStep) return;
  const LogicalOp& from = producer(id);
  const bool gradient = is_backward(from.phase);
  const int here = virtual_stage_of(reader.layer), there = source.virtual_stage;
  const bool wrong = gradient ? there < here : reader.phase == Phase::kForward && there > here;
  const bool is_virtual = here != reader.stage || there != source.stage;
  require(!wrong, ErrorCode::kInfeasible,
          "operator '{}' on {}stage {} reads '{}' of operator '{}' on {}stage {}: {} only pass to "
          "{} stages",
          graph_.op(reader.op).name, is_virtual ? "virtual " : "", here, logical(id).name,
          from.name, is_virtual ? "virtual " : "", there, gradient ? "gradients" : "forward values",
          gradient ? "earlier" : "later");
}

// A boxing that several readers share acts as early as the first of them in the step needs it.
void StageBuilder::raise_phase(TensorId id, std::size_t version, Phase phase) {
  if (phase == Phase::kData || facts_[id.index()].is_late) return;
  for (auto index = static_cast<std::int32_t>(version); index >= 0;) {
    const Version& raised = facts_[id.index()].versions[static_cast<std::size_t>(index)];
    for (const StagedOpIndex made_by : raised.made_by) {
      StagedOp& op = at(staged_.ops, made_by);
      if (place_in_step(phase) < place_in_step(op.phase)) op.phase = phase;
    }
    index = raised.source;
  }
}

}  // namespace sextant
