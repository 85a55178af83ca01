// The boxing that a staged graph needs: new versions of a tensor, their steps and transfers as
// operators, and where in the step these act. Which version a reader takes is decided in
// stage_builder.cpp.
#include "compiler/words/stage_builder.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <optional>
#include <string>
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

}  // namespace

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
  if (local) op.role = OperatorRole::kBoxing;
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
