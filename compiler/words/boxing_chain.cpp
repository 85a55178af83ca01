// Boxings as operators, and where in the step these act.
#include "compiler/words/boxing_chain.h"

#include "core/base/at.h"

#include <fmt/core.h>

#include <string>
#include <utility>

namespace sextant {
namespace {

// Where the value starts, boxing belongs to its producer; where it arrives, to its first reader.
StagedOp boxing_op(const StageFacts& facts, const BoxingChain& chain, const std::string& kind) {
  StagedOp op;
  op.kind = kind;
  op.name = facts.logical(chain.id).name + "." + kind;
  op.rate = chain.rate;
  op.stage = chain.stage;
  const LogicalOp& from = facts.producer(chain.id);
  op.layer = chain.before_transfer ? from.layer : chain.reader->layer;
  op.phase = chain.before_transfer ? from.phase : chain.reader->phase;
  const bool late = facts.is_late(chain.id) || (chain.rate == Rate::kPerStep &&
                                                facts.rate_of(chain.id) == Rate::kPerMicroBatch);
  if (late || op.phase == Phase::kData) op.phase = Phase::kOptimizer;
  return op;
}

StagedTensorId add_boxed(const StageFacts& facts, const BoxingChain& chain, const NdSbp& words,
                         bool is_last, StagedGraph& staged) {
  const LogicalTensor& tensor = facts.logical(chain.id);
  std::string name = fmt::format("{} as {}", tensor.name, to_string(words));
  if (chain.stage != facts.stage_of(facts.producer(chain.id)))
    name += fmt::format(" on stage {}", chain.stage);
  // The operator that makes it is appended next, except that a receive half follows its send half.
  return staged.tensors.add({.name = std::move(name),
                             .global = tensor.type,
                             .words = words,
                             .stage = chain.stage,
                             .producer = staged.ops.next_key(),
                             .memory = is_last ? chain.memory : MemoryClass::kCommunication,
                             .is_state = false});
}

void append_transfer(const StageFacts& facts, BoxingChain& chain, const BoxingStep& step,
                     bool is_last, StagedGraph& staged) {
  const int from = chain.stage, to = chain.reader->stage;
  const int virtual_to = facts.virtual_stage_of(chain.reader->layer);
  const bool forward = chain.virtual_stage < virtual_to;
  const StagedOpId send_index = staged.ops.next_key();
  StagedCommunication halves{.primitive = Primitive::kTransfer,
                             .reduce = step.reduce,
                             .group_axes = {},
                             .peer = send_index.plus(1),
                             .side = Side::kSend,
                             .from = staged.tensors[chain.tensor].words,
                             .to = step.to,
                             .from_stage = from,
                             .to_stage = to,
                             .dtype = facts.logical(chain.id).type.dtype};
  StagedOp send = boxing_op(facts, chain, "transfer");
  send.name = facts.logical(chain.id).name + ".send";
  send.phase = Phase::kCommunication;
  send.queue = forward ? QueueRole::kTransferOutForward : QueueRole::kTransferOutBackward;
  send.in = {chain.tensor};
  send.communication = halves;
  staged.ops.push_back(std::move(send));

  chain.before_transfer = false;
  chain.made_by.clear();
  chain.stage = to;
  chain.virtual_stage = virtual_to;
  halves.side = Side::kReceive;
  halves.peer = send_index;
  StagedOp receive = boxing_op(facts, chain, "transfer");
  receive.name = facts.logical(chain.id).name + ".receive";
  receive.phase = Phase::kCommunication;
  receive.queue = forward ? QueueRole::kTransferInForward : QueueRole::kTransferInBackward;
  receive.communication = std::move(halves);
  chain.tensor = add_boxed(facts, chain, step.to, is_last, staged);
  receive.out = {chain.tensor};
  staged.ops.push_back(std::move(receive));
}

}  // namespace

void append_step(const StageFacts& facts, BoxingChain& chain, const BoxingStep& step, bool is_last,
                 StagedGraph& staged) {
  if (step.kind == BoxingKind::kTransfer)
    return append_transfer(facts, chain, step, is_last, staged);
  const bool local = step.kind == BoxingKind::kLocal;
  StagedOp op =
      boxing_op(facts, chain, local ? "box_local" : std::string(to_string(step.primitive)));
  if (local) op.role = OperatorRole::kBoxing;
  op.queue = local ? QueueRole::kCompute : QueueRole::kCollective;
  if (!local)
    op.communication = StagedCommunication{.primitive = step.primitive,
                                           .reduce = step.reduce,
                                           .group_axes = step.group_axes,
                                           .peer = StagedOpId::none,
                                           .side = Side::kBoth,
                                           .from = staged.tensors[chain.tensor].words,
                                           .to = step.to,
                                           .from_stage = chain.stage,
                                           .to_stage = chain.stage,
                                           .dtype = facts.logical(chain.id).type.dtype};
  op.in = {chain.tensor};
  chain.tensor = add_boxed(facts, chain, step.to, is_last, staged);
  op.out = {chain.tensor};
  if (!chain.before_transfer) chain.made_by.push_back(staged.ops.next_key());
  staged.ops.push_back(std::move(op));
}

}  // namespace sextant
