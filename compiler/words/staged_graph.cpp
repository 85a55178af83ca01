// The readable dump of a staged graph.
#include "compiler/words/staged_graph.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>

namespace sextant {

bool is_boxing(const StagedOp& op) {
  return op.communication.has_value() || op.role == OperatorRole::kBoxing;
}

namespace {

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
