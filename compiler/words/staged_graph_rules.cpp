// The rules a staged graph keeps, one bullet each over the function that checks it.
#include "compiler/words/staged_graph.h"
#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant {
namespace {

// The graph with one message per broken rule.
struct RuleBook {
  const StagedGraph& graph;
  std::vector<std::string> messages = {};
  Table<StagedTensorId, std::vector<StagedOpId>> readers = {};  // once all indices are sound

  template <typename... Args>
  void rule(bool holds, fmt::format_string<Args...> text, Args&&... args) {
    if (!holds) messages.push_back(fmt::format(text, std::forward<Args>(args)...));
  }
  void validate_placement(const Placement& placement) {
    try {
      validate(placement);
    } catch (const Error& error) {
      messages.push_back(error.what());
    }
  }
  void note_readers() {
    readers.resize(graph.tensors.size());
    for (const StagedOpId i : graph.ops.keys())
      for (const StagedTensorId in : graph.ops[i].in) readers[in].push_back(i);
  }

  bool is_stage(int stage) const {
    return stage >= 0 && static_cast<std::size_t>(stage) < graph.placements.size();
  }
  bool is_op(StagedOpId op) const { return graph.ops.contains(op); }
  bool is_tensor(StagedTensorId tensor) const { return graph.tensors.contains(tensor); }
  const StagedTensor& tensor(StagedTensorId index) const { return graph.tensors[index]; }
  const StagedOp& op(StagedOpId index) const { return graph.ops[index]; }
  std::size_t num_axes(int stage) const { return at(graph.placements, stage).axes.size(); }
  bool per_step(StagedOpId index) const { return op(index).rate == Rate::kPerStep; }
};

// - A step has at least one micro-batch.
// - No layer is in a chunk below 0.
// - Placements are sound (core/tensors/placement.h).
void check_graph(RuleBook& book) {
  book.rule(book.graph.micro_batches >= 1, "a step of {} micro-batches", book.graph.micro_batches);
  for (std::size_t layer = 0; layer < book.graph.chunk_of_layer.size(); ++layer)
    book.rule(book.graph.chunk_of_layer[layer] >= 0, "layer {} is in chunk {}", layer,
              book.graph.chunk_of_layer[layer]);
  for (const Placement& placement : book.graph.placements) book.validate_placement(placement);
}
// - A tensor lives on a stage of the graph.
// - It has one word per mesh axis, and splits only dims it has.
// - Exactly one operator, its producer, lists it among its outputs.
void check_tensor(RuleBook& book, StagedTensorId index) {
  const StagedTensor& t = book.graph.tensors[index];
  book.rule(book.is_stage(t.stage), "tensor '{}' is on stage {} of {}", t.name, t.stage,
            book.graph.placements.size());
  // Texts are made where a rule is broken: there are many tensors.
  if (book.is_stage(t.stage) && t.words.size() != book.num_axes(t.stage))
    book.rule(false, "tensor '{}' has words {} on {}", t.name, to_string(t.words),
              to_string(at(book.graph.placements, t.stage)));
  for (const Sbp& word : t.words)
    if (word.is_split() && word.dim >= t.global.shape.rank())
      book.rule(false, "tensor '{}' of shape {} has words {}", t.name, to_string(t.global.shape),
                to_string(t.words));
  book.rule(book.is_op(t.producer), "tensor '{}' has no producer", t.name);
  if (!book.is_op(t.producer)) return;
  const StagedOp& producer = book.op(t.producer);
  const auto count = [&](const std::vector<StagedTensorId>& tensors) {
    return std::count(tensors.begin(), tensors.end(), index);
  };
  book.rule(count(producer.out) + count(producer.inner) == 1,
            "tensor '{}' is not an output of its producer '{}'", t.name, producer.name);
}

// - Operands are tensors of the graph, on the operator's own stage.
// - Outputs name the operator as their producer.
// - Its layer has a chunk, where layers have chunks.
void check_indices(RuleBook& book, StagedOpId index) {
  const StagedOp& o = book.graph.ops[index];
  book.rule(book.is_stage(o.stage), "operator '{}' is on stage {} of {}", o.name, o.stage,
            book.graph.placements.size());
  book.rule(o.layer >= 0, "operator '{}' is in layer {}", o.name, o.layer);
  const auto& chunks = book.graph.chunk_of_layer;
  book.rule(chunks.empty() || static_cast<std::size_t>(o.layer) < chunks.size(),
            "operator '{}' is in layer {}, but {} layers have a chunk", o.name, o.layer,
            chunks.size());
  for (const auto* operands : {&o.in, &o.out, &o.inner})
    for (const StagedTensorId operand : *operands) {
      book.rule(book.is_tensor(operand), "operator '{}' has operand {} of {} tensors", o.name,
                operand.value, book.graph.tensors.size());
      if (!book.is_tensor(operand)) continue;
      book.rule(book.tensor(operand).stage == o.stage,
                "operator '{}' on stage {} has operand '{}' of stage {}", o.name, o.stage,
                book.tensor(operand).name, book.tensor(operand).stage);
      if (operands != &o.in)
        book.rule(book.tensor(operand).producer == index,
                  "output '{}' of operator '{}' names another producer", book.tensor(operand).name,
                  o.name);
    }
  if (o.communication && o.communication->primitive == Primitive::kTransfer)
    book.rule(book.is_op(o.communication->peer), "transfer '{}' has no other half", o.name);
}

// - An input is produced earlier; state is read before its producer updates it.
void check_order(RuleBook& book, StagedOpId index, const StagedOp& o) {
  for (const StagedTensorId in : o.in) {
    const StagedOpId producer = book.tensor(in).producer;
    if (book.tensor(in).is_state)
      book.rule(producer > index, "operator '{}' reads state '{}' after its update", o.name,
                book.tensor(in).name);
    else
      book.rule(producer < index, "operator '{}' reads '{}' before it is produced", o.name,
                book.tensor(in).name);
  }
}

// - Members of a fused operator read its inputs, or what a member before them made, and together
//   make its outputs and inner tensors; nobody else reads the inner ones.
void check_members(RuleBook& book, const StagedOp& o) {
  std::vector<StagedTensorId> made;
  const auto holds = [](const std::vector<StagedTensorId>& tensors, StagedTensorId wanted) {
    return std::find(tensors.begin(), tensors.end(), wanted) != tensors.end();
  };
  for (const StagedMember& member : o.members) {
    for (const StagedTensorId in : member.in)
      book.rule(holds(made, in) || holds(o.in, in), "member '{}' of '{}' reads what is not there",
                member.name, o.name);
    made.insert(made.end(), member.out.begin(), member.out.end());
  }
  std::vector<StagedTensorId> wanted = o.out;
  wanted.insert(wanted.end(), o.inner.begin(), o.inner.end());
  std::sort(wanted.begin(), wanted.end());
  std::sort(made.begin(), made.end());
  book.rule(o.members.empty() ? o.inner.empty() : made == wanted,
            "the members of '{}' do not make its outputs and inner tensors", o.name);
  for (const StagedTensorId inner : o.inner)
    book.rule(book.readers[inner].empty(), "tensor '{}' inside '{}' is read from outside",
              book.tensor(inner).name, o.name);
}

// - Collectives are on the collective queue, halves of transfers on a transfer queue of their
//   side, everything else on the compute or the host queue.
void check_queue(RuleBook& book, const StagedOp& o) {
  bool right = false;
  switch (o.queue) {
    case QueueRole::kCompute:
    case QueueRole::kHost:
      right = !o.communication;
      break;
    case QueueRole::kCollective:
      right = o.communication && o.communication->primitive != Primitive::kTransfer;
      break;
    case QueueRole::kTransferOutForward:
    case QueueRole::kTransferOutBackward:
      right = o.communication && o.communication->side == Side::kSend;
      break;
    case QueueRole::kTransferInForward:
    case QueueRole::kTransferInBackward:
      right = o.communication && o.communication->side == Side::kReceive;
      break;
    case QueueRole::kCopyIn:
    case QueueRole::kCopyOut:
      break;
  }
  book.rule(right, "operator '{}' of kind {} is on the {} queue", o.name, o.kind,
            to_string(o.queue));
}

void check_side(RuleBook& book, const StagedOp& o, const StagedCommunication& c,
                const StagedTensor& t, const NdSbp& words, std::string_view which) {
  if (t.words == words && t.global.dtype == c.dtype) return;
  book.rule(false, "communication '{}' says {} {} {}, but '{}' is {} {}", o.name, which,
            to_string(c.dtype), to_string(words), t.name, to_string(t.global.dtype),
            to_string(t.words));
}

// - A collective turns one tensor into one tensor of the same type, on its own stage.
// - It runs over at least one mesh axis, each named once and in order.
// - Its words are those of its tensors.
void check_collective(RuleBook& book, const StagedOp& o) {
  const StagedCommunication& c = *o.communication;
  book.rule(c.side == Side::kBoth && !c.peer.is_valid(), "collective '{}' has only one side",
            o.name);
  book.rule(c.from_stage == o.stage && c.to_stage == o.stage, "collective '{}' leaves stage {}",
            o.name, o.stage);
  const auto& axes = c.group_axes;
  const bool names_axes = !axes.empty() && std::is_sorted(axes.begin(), axes.end()) &&
                          std::adjacent_find(axes.begin(), axes.end()) == axes.end() &&
                          axes.back() < book.num_axes(o.stage);
  if (!names_axes)
    book.rule(false, "collective '{}' does not name mesh axes of {}", o.name,
              to_string(at(book.graph.placements, o.stage)));
  book.rule(o.in.size() == 1 && o.out.size() == 1, "collective '{}' has {} inputs and {} outputs",
            o.name, o.in.size(), o.out.size());
  if (o.in.size() != 1 || o.out.size() != 1) return;
  check_side(book, o, c, book.tensor(o.in[0]), c.from, "from");
  check_side(book, o, c, book.tensor(o.out[0]), c.to, "to");
  book.rule(book.tensor(o.in[0]).global == book.tensor(o.out[0]).global,
            "collective '{}' changes the type", o.name);
}

// - A transfer has two halves that name each other and agree on words, stages, type and rate.
// - They are on different stages; the send half comes first.
// - The send half reads one tensor and writes none, the receive half the reverse.
void check_transfer(RuleBook& book, StagedOpId index, const StagedOp& o) {
  const StagedCommunication& c = *o.communication;
  const StagedOp& other = book.op(c.peer);
  book.rule(c.side != Side::kBoth, "transfer '{}' is not a half", o.name);
  book.rule(c.from_stage != c.to_stage, "transfer '{}' stays on stage {}", o.name, c.from_stage);
  const bool sends = c.side == Side::kSend;
  book.rule(o.stage == (sends ? c.from_stage : c.to_stage), "half '{}' is on stage {}", o.name,
            o.stage);
  book.rule(o.in.size() == (sends ? 1U : 0U) && o.out.size() == (sends ? 0U : 1U),
            "half '{}' has {} inputs and {} outputs", o.name, o.in.size(), o.out.size());
  if (sends && o.in.size() == 1) check_side(book, o, c, book.tensor(o.in[0]), c.from, "from");
  if (!sends && o.out.size() == 1) check_side(book, o, c, book.tensor(o.out[0]), c.to, "to");
  book.rule(sends == (index < c.peer), "transfer '{}' is received before it is sent", o.name);
  const bool agree = other.communication && other.communication->side != c.side &&
                     other.communication->peer == index && other.communication->from == c.from &&
                     other.communication->to == c.to &&
                     other.communication->from_stage == c.from_stage &&
                     other.communication->to_stage == c.to_stage &&
                     other.communication->dtype == c.dtype && other.rate == o.rate;
  book.rule(agree, "halves '{}' and '{}' do not agree", o.name, other.name);
}

void check_op(RuleBook& book, StagedOpId index) {
  const StagedOp& o = book.graph.ops[index];
  check_order(book, index, o);
  check_queue(book, o);
  check_members(book, o);
  if (!o.communication) return;
  if (o.communication->primitive == Primitive::kTransfer)
    check_transfer(book, index, o);
  else
    check_collective(book, o);
}

// - State is updated once per step.
// - A per-micro-batch tensor with a per-step reader is an accumulator: its content is whole only
//   after the last micro-batch, so nobody may read it per micro-batch.
void check_readers(RuleBook& book, StagedTensorId index) {
  const StagedTensor& t = book.graph.tensors[index];
  book.rule(!t.is_state || book.per_step(t.producer), "state '{}' is updated per micro-batch",
            t.name);
  if (book.per_step(t.producer)) return;
  const auto& readers = book.readers[index];
  const auto steps = std::count_if(readers.begin(), readers.end(),
                                   [&](StagedOpId reader) { return book.per_step(reader); });
  book.rule(steps == 0 || static_cast<std::size_t>(steps) == readers.size(),
            "tensor '{}' is read both per micro-batch and per step", t.name);
}

// - What is made from sums over the micro-batches exists only at the end of the step: no
//   per-micro-batch operator of the same step reads it, except through state.
void check_feeding(RuleBook& book) {
  Table<StagedOpId, bool> late(book.graph.ops.size(), false);
  for (const StagedOpId i : book.graph.ops.keys()) {
    const StagedOp& o = book.graph.ops[i];
    if (o.communication && o.communication->side == Side::kReceive && o.communication->peer < i)
      late[i] = late[o.communication->peer];
    for (const StagedTensorId in : o.in) {
      if (book.tensor(in).is_state) continue;
      const StagedOpId producer = book.tensor(in).producer;
      const bool from_late = producer < i && late[producer];
      if (o.rate == Rate::kPerMicroBatch)
        book.rule(!from_late,
                  "operator '{}' reads '{}' per micro-batch, made at the end of the step", o.name,
                  book.tensor(in).name);
      else if (from_late || !book.per_step(book.tensor(in).producer))
        late[i] = true;
    }
  }
}

}  // namespace

// Rules that look up other operators are only checked when all indices are sound.
std::vector<std::string> validate(const StagedGraph& graph) {
  RuleBook book{graph};
  check_graph(book);
  for (const StagedTensorId i : graph.tensors.keys()) check_tensor(book, i);
  for (const StagedOpId i : graph.ops.keys()) check_indices(book, i);
  if (!book.messages.empty()) return std::move(book.messages);
  book.note_readers();
  for (const StagedOpId i : graph.ops.keys()) check_op(book, i);
  for (const StagedTensorId i : graph.tensors.keys()) check_readers(book, i);
  check_feeding(book);
  return std::move(book.messages);
}

}  // namespace sextant
