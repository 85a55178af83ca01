// The rules a staged graph keeps, and its readable dump.
#include "compiler/words/staged_graph.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {

bool is_boxing(const StagedOp& op) {
  return op.communication.has_value() || op.role == OperatorRole::kBoxing;
}

namespace {

// Collects one message per broken rule. Rules that look up other operators are only checked when
// all indices are sound.
class Validator {
 public:
  explicit Validator(const StagedGraph& graph) : graph_(graph) {}

  std::vector<std::string> run() {
    check_graph();
    for (const StagedTensorId i : graph_.tensors.keys()) check_tensor(i);
    for (const StagedOpId i : graph_.ops.keys()) check_indices(i);
    if (!messages_.empty()) return std::move(messages_);
    note_readers();
    for (const StagedOpId i : graph_.ops.keys()) check_op(i);
    for (const StagedTensorId i : graph_.tensors.keys()) check_readers(i);
    check_feeding();
    return std::move(messages_);
  }

 private:
  template <typename... Args>
  void rule(bool holds, fmt::format_string<Args...> text, Args&&... args) {
    if (!holds) messages_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  bool is_stage(int stage) const {
    return stage >= 0 && static_cast<std::size_t>(stage) < graph_.placements.size();
  }
  bool is_op(StagedOpId op) const { return graph_.ops.contains(op); }
  bool is_tensor(StagedTensorId tensor) const { return graph_.tensors.contains(tensor); }
  const StagedTensor& tensor(StagedTensorId index) const { return graph_.tensors[index]; }
  const StagedOp& op(StagedOpId index) const { return graph_.ops[index]; }
  std::size_t num_axes(int stage) const { return at(graph_.placements, stage).axes.size(); }

  // - A step has at least one micro-batch.
  // - No layer is in a chunk below 0.
  // - Placements are sound (core/tensors/placement.h).
  void check_graph() {
    rule(graph_.micro_batches >= 1, "a step of {} micro-batches", graph_.micro_batches);
    for (std::size_t layer = 0; layer < graph_.chunk_of_layer.size(); ++layer)
      rule(graph_.chunk_of_layer[layer] >= 0, "layer {} is in chunk {}", layer,
           graph_.chunk_of_layer[layer]);
    for (const Placement& placement : graph_.placements) validate_placement(placement);
  }
  void validate_placement(const Placement& placement) {
    try {
      validate(placement);
    } catch (const Error& error) {
      messages_.push_back(error.what());
    }
  }

  // - A tensor lives on a stage of the graph.
  // - It has one word per mesh axis, and splits only dims it has.
  // - Exactly one operator, its producer, lists it among its outputs.
  void check_tensor(StagedTensorId index) {
    const StagedTensor& t = graph_.tensors[index];
    rule(is_stage(t.stage), "tensor '{}' is on stage {} of {}", t.name, t.stage,
         graph_.placements.size());
    // Texts are made where a rule is broken: there are many tensors.
    if (is_stage(t.stage) && t.words.size() != num_axes(t.stage))
      rule(false, "tensor '{}' has words {} on {}", t.name, to_string(t.words),
           to_string(at(graph_.placements, t.stage)));
    for (const Sbp& word : t.words)
      if (word.is_split() && word.dim >= t.global.shape.rank())
        rule(false, "tensor '{}' of shape {} has words {}", t.name, to_string(t.global.shape),
             to_string(t.words));
    rule(is_op(t.producer), "tensor '{}' has no producer", t.name);
    if (!is_op(t.producer)) return;
    const StagedOp& producer = op(t.producer);
    const auto count = [&](const std::vector<StagedTensorId>& tensors) {
      return std::count(tensors.begin(), tensors.end(), index);
    };
    rule(count(producer.out) + count(producer.inner) == 1,
         "tensor '{}' is not an output of its producer '{}'", t.name, producer.name);
  }

  // - Operands are tensors of the graph, on the operator's own stage.
  // - Outputs name the operator as their producer.
  // - Its layer has a chunk, where layers have chunks.
  void check_indices(StagedOpId index) {
    const StagedOp& o = graph_.ops[index];
    rule(is_stage(o.stage), "operator '{}' is on stage {} of {}", o.name, o.stage,
         graph_.placements.size());
    rule(o.layer >= 0, "operator '{}' is in layer {}", o.name, o.layer);
    const auto& chunks = graph_.chunk_of_layer;
    rule(chunks.empty() || static_cast<std::size_t>(o.layer) < chunks.size(),
         "operator '{}' is in layer {}, but {} layers have a chunk", o.name, o.layer,
         chunks.size());
    for (const auto* operands : {&o.in, &o.out, &o.inner})
      for (const StagedTensorId operand : *operands) {
        rule(is_tensor(operand), "operator '{}' has operand {} of {} tensors", o.name,
             operand.value, graph_.tensors.size());
        if (!is_tensor(operand)) continue;
        rule(tensor(operand).stage == o.stage,
             "operator '{}' on stage {} has operand '{}' of stage {}", o.name, o.stage,
             tensor(operand).name, tensor(operand).stage);
        if (operands != &o.in)
          rule(tensor(operand).producer == index,
               "output '{}' of operator '{}' names another producer", tensor(operand).name, o.name);
      }
    if (o.communication && o.communication->primitive == Primitive::kTransfer)
      rule(is_op(o.communication->peer), "transfer '{}' has no other half", o.name);
  }

  void note_readers() {
    readers_.resize(graph_.tensors.size());
    for (const StagedOpId i : graph_.ops.keys())
      for (const StagedTensorId in : graph_.ops[i].in) readers_[in].push_back(i);
  }

  void check_op(StagedOpId index) {
    const StagedOp& o = graph_.ops[index];
    check_order(index, o);
    check_queue(o);
    check_members(o);
    if (!o.communication) return;
    if (o.communication->primitive == Primitive::kTransfer)
      check_transfer(index, o);
    else
      check_collective(o);
  }

  // - An input is produced earlier; state is read before its producer updates it.
  void check_order(StagedOpId index, const StagedOp& o) {
    for (const StagedTensorId in : o.in) {
      const StagedOpId producer = tensor(in).producer;
      if (tensor(in).is_state)
        rule(producer > index, "operator '{}' reads state '{}' after its update", o.name,
             tensor(in).name);
      else
        rule(producer < index, "operator '{}' reads '{}' before it is produced", o.name,
             tensor(in).name);
    }
  }

  // - Members of a fused operator read its inputs, or what a member before them made, and together
  //   make its outputs and inner tensors; nobody else reads the inner ones.
  void check_members(const StagedOp& o) {
    std::vector<StagedTensorId> made;
    const auto holds = [](const std::vector<StagedTensorId>& tensors, StagedTensorId wanted) {
      return std::find(tensors.begin(), tensors.end(), wanted) != tensors.end();
    };
    for (const StagedMember& member : o.members) {
      for (const StagedTensorId in : member.in)
        rule(holds(made, in) || holds(o.in, in), "member '{}' of '{}' reads what is not there",
             member.name, o.name);
      made.insert(made.end(), member.out.begin(), member.out.end());
    }
    std::vector<StagedTensorId> wanted = o.out;
    wanted.insert(wanted.end(), o.inner.begin(), o.inner.end());
    std::sort(wanted.begin(), wanted.end());
    std::sort(made.begin(), made.end());
    rule(o.members.empty() ? o.inner.empty() : made == wanted,
         "the members of '{}' do not make its outputs and inner tensors", o.name);
    for (const StagedTensorId inner : o.inner)
      rule(readers_[inner].empty(), "tensor '{}' inside '{}' is read from outside",
           tensor(inner).name, o.name);
  }

  // - Collectives are on the collective queue, halves of transfers on a transfer queue of their
  //   side, everything else on the compute or the host queue.
  void check_queue(const StagedOp& o) {
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
    rule(right, "operator '{}' of kind {} is on the {} queue", o.name, o.kind, to_string(o.queue));
  }

  // - A collective turns one tensor into one tensor of the same type, on its own stage.
  // - It runs over at least one mesh axis, each named once and in order.
  // - Its words are those of its tensors.
  void check_collective(const StagedOp& o) {
    const StagedCommunication& c = *o.communication;
    rule(c.side == Side::kBoth && !c.peer.is_valid(), "collective '{}' has only one side", o.name);
    rule(c.from_stage == o.stage && c.to_stage == o.stage, "collective '{}' leaves stage {}",
         o.name, o.stage);
    const auto& axes = c.group_axes;
    const bool names_axes = !axes.empty() && std::is_sorted(axes.begin(), axes.end()) &&
                            std::adjacent_find(axes.begin(), axes.end()) == axes.end() &&
                            axes.back() < num_axes(o.stage);
    if (!names_axes)
      rule(false, "collective '{}' does not name mesh axes of {}", o.name,
           to_string(at(graph_.placements, o.stage)));
    rule(o.in.size() == 1 && o.out.size() == 1, "collective '{}' has {} inputs and {} outputs",
         o.name, o.in.size(), o.out.size());
    if (o.in.size() != 1 || o.out.size() != 1) return;
    check_side(o, c, tensor(o.in[0]), c.from, "from");
    check_side(o, c, tensor(o.out[0]), c.to, "to");
    rule(tensor(o.in[0]).global == tensor(o.out[0]).global, "collective '{}' changes the type",
         o.name);
  }

  // - A transfer has two halves that name each other and agree on words, stages, type and rate.
  // - They are on different stages; the send half comes first.
  // - The send half reads one tensor and writes none, the receive half the reverse.
  void check_transfer(StagedOpId index, const StagedOp& o) {
    const StagedCommunication& c = *o.communication;
    const StagedOp& other = op(c.peer);
    rule(c.side != Side::kBoth, "transfer '{}' is not a half", o.name);
    rule(c.from_stage != c.to_stage, "transfer '{}' stays on stage {}", o.name, c.from_stage);
    const bool sends = c.side == Side::kSend;
    rule(o.stage == (sends ? c.from_stage : c.to_stage), "half '{}' is on stage {}", o.name,
         o.stage);
    rule(o.in.size() == (sends ? 1U : 0U) && o.out.size() == (sends ? 0U : 1U),
         "half '{}' has {} inputs and {} outputs", o.name, o.in.size(), o.out.size());
    if (sends && o.in.size() == 1) check_side(o, c, tensor(o.in[0]), c.from, "from");
    if (!sends && o.out.size() == 1) check_side(o, c, tensor(o.out[0]), c.to, "to");
    rule(sends == (index < c.peer), "transfer '{}' is received before it is sent", o.name);
    const bool agree = other.communication && other.communication->side != c.side &&
                       other.communication->peer == index && other.communication->from == c.from &&
                       other.communication->to == c.to &&
                       other.communication->from_stage == c.from_stage &&
                       other.communication->to_stage == c.to_stage &&
                       other.communication->dtype == c.dtype && other.rate == o.rate;
    rule(agree, "halves '{}' and '{}' do not agree", o.name, other.name);
  }

  void check_side(const StagedOp& o, const StagedCommunication& c, const StagedTensor& t,
                  const NdSbp& words, std::string_view which) {
    if (t.words == words && t.global.dtype == c.dtype) return;
    rule(false, "communication '{}' says {} {} {}, but '{}' is {} {}", o.name, which,
         to_string(c.dtype), to_string(words), t.name, to_string(t.global.dtype),
         to_string(t.words));
  }

  bool per_step(StagedOpId index) const { return op(index).rate == Rate::kPerStep; }

  // - State is updated once per step.
  // - A per-micro-batch tensor with a per-step reader is an accumulator: its content is whole only
  //   after the last micro-batch, so nobody may read it per micro-batch.
  void check_readers(StagedTensorId index) {
    const StagedTensor& t = graph_.tensors[index];
    rule(!t.is_state || per_step(t.producer), "state '{}' is updated per micro-batch", t.name);
    if (per_step(t.producer)) return;
    const auto& readers = readers_[index];
    const auto steps = std::count_if(readers.begin(), readers.end(),
                                     [&](StagedOpId reader) { return per_step(reader); });
    rule(steps == 0 || static_cast<std::size_t>(steps) == readers.size(),
         "tensor '{}' is read both per micro-batch and per step", t.name);
  }

  // - What is made from sums over the micro-batches exists only at the end of the step: no
  //   per-micro-batch operator of the same step reads it, except through state.
  void check_feeding() {
    Table<StagedOpId, bool> late(graph_.ops.size(), false);
    for (const StagedOpId i : graph_.ops.keys()) {
      const StagedOp& o = graph_.ops[i];
      if (o.communication && o.communication->side == Side::kReceive && o.communication->peer < i)
        late[i] = late[o.communication->peer];
      for (const StagedTensorId in : o.in) {
        if (tensor(in).is_state) continue;
        const StagedOpId producer = tensor(in).producer;
        const bool from_late = producer < i && late[producer];
        if (o.rate == Rate::kPerMicroBatch)
          rule(!from_late, "operator '{}' reads '{}' per micro-batch, made at the end of the step",
               o.name, tensor(in).name);
        else if (from_late || !per_step(tensor(in).producer))
          late[i] = true;
      }
    }
  }

  const StagedGraph& graph_;
  Table<StagedTensorId, std::vector<StagedOpId>> readers_;
  std::vector<std::string> messages_;
};

std::string placement_text(const Placement& placement) {
  std::string text = to_string(placement) + " ranks";
  for (const Rank rank : placement.ranks) text += fmt::format(" {}", rank.value);
  return text;
}

std::string communication_text(const StagedGraph& graph, const StagedCommunication& c) {
  if (c.side == Side::kSend) return fmt::format(" [to stage {} {}]", c.to_stage, to_string(c.to));
  if (c.side == Side::kReceive)
    return fmt::format(" [from stage {} {}]", c.from_stage, to_string(c.from));
  std::string axes;
  for (const std::size_t axis : c.group_axes)
    axes += (axes.empty() ? "" : ", ") + at(graph.placements, c.from_stage).axes[axis].name;
  const bool reduces =
      c.primitive == Primitive::kAllReduce || c.primitive == Primitive::kReduceScatter;
  return fmt::format(" [{}over {}]", reduces ? fmt::format("{} ", to_string(c.reduce)) : "", axes);
}

std::string op_text(const StagedGraph& graph, const StagedOp& o) {
  std::string text = fmt::format("{} L{} {} {} {} {}:", o.stage, o.layer, to_string(o.phase),
                                 o.rate == Rate::kPerStep ? "step" : "micro_batch", o.kind, o.name);
  for (std::size_t i = 0; i < o.in.size(); ++i) {
    const StagedTensor& t = graph.tensors[o.in[i]];
    text += fmt::format("{} {} {}", i == 0 ? "" : ",", t.name, to_string(t.words));
  }
  for (std::size_t i = 0; i < o.out.size(); ++i) {
    const StagedTensor& t = graph.tensors[o.out[i]];
    text += fmt::format("{} {} {} {} {} {}{}", i == 0 ? " ->" : ",", t.name,
                        to_string(t.global.shape), to_string(t.global.dtype), to_string(t.words),
                        to_string(t.memory), t.is_state ? " state" : "");
  }
  if (o.communication) text += communication_text(graph, *o.communication);
  for (const StagedMember& member : o.members)
    text += fmt::format("{}{}", &member == &o.members.front() ? " = " : ", ", member.name);
  return text + "\n";
}

}  // namespace

int StagedGraph::num_chunks() const {
  const auto last = std::max_element(chunk_of_layer.begin(), chunk_of_layer.end());
  return last == chunk_of_layer.end() ? 1 : *last + 1;
}

std::vector<std::string> validate(const StagedGraph& graph) { return Validator(graph).run(); }

std::string to_text(const StagedGraph& graph) {
  std::string text = fmt::format("micro_batches {}\n", graph.micro_batches);
  if (graph.num_chunks() > 1) {
    text += "chunk of layer";
    for (const int chunk : graph.chunk_of_layer) text += fmt::format(" {}", chunk);
    text += "\n";
  }
  for (std::size_t stage = 0; stage < graph.placements.size(); ++stage)
    text += fmt::format("stage {}: {}\n", stage, placement_text(graph.placements[stage]));
  for (const StagedOp& o : graph.ops) text += op_text(graph, o);
  return text;
}

}  // namespace sextant
