// Written by hand: Boost.Graph's writer has no clusters without copying the graph into subgraphs.
#include "compiler/words/staged_graphviz.h"

#include "compiler/words/boxing_causes.h"
#include "core/base/at.h"

#include <fmt/core.h>

#include <iterator>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

// As Graphviz reads it between quotes; \n stays the line break of a label.
std::string dot_quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (letter == '\n')
      result += "\\n";
    else
      result += letter;
  }
  return result + "\"";
}

class Writer {
 public:
  explicit Writer(const StagedGraph& graph) : graph_(graph) {}

  std::string run() {
    text_ = "digraph staged {\n  node [shape=box];\n";
    for (std::size_t stage = 0; stage < graph_.placements.size(); ++stage) add_stage(stage);
    for (const StagedOpId op : graph_.ops.keys()) add_edges(op);
    return std::move(text_) + "}\n";
  }

 private:
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  void add_stage(std::size_t stage) {
    add("  subgraph cluster_{} {{\n    label={};\n", stage,
        dot_quoted(fmt::format("stage {}: {}", stage, to_string(graph_.placements[stage]))));
    for (const StagedOpId op : graph_.ops.keys())
      if (graph_.ops[op].stage == static_cast<int>(stage)) add_op(op);
    text_ += "  }\n";
  }

  void add_op(StagedOpId index) {
    const StagedOp& op = graph_.ops[index];
    add("    {} [label={}{}];\n", index.value, dot_quoted(op.name + "\n" + op.kind), style_of(op));
  }

  static std::string_view style_of(const StagedOp& op) {
    if (op.communication) return ", shape=ellipse, style=filled, fillcolor=orange";
    return is_boxing(op) ? ", shape=ellipse, style=filled, fillcolor=lightyellow" : "";
  }

  // What crosses stages goes from half to half; state flows back, from its update to the readers of
  // the next step.
  void add_edges(StagedOpId index) {
    const StagedOp& op = graph_.ops[index];
    for (const StagedTensorId in : op.in) {
      const StagedTensor& tensor = graph_.tensors[in];
      add("  {} -> {} [label={}{}];\n", tensor.producer.value, index.value,
          dot_quoted(fmt::format("{} {}", to_string(tensor.global.shape), to_string(tensor.words))),
          tensor.is_state ? ", style=dotted, constraint=false" : "");
    }
    if (op.communication && op.communication->side == Side::kReceive)
      add("  {} -> {} [style=bold, label={}];\n", op.communication->peer.value, index.value,
          dot_quoted(to_string(op.communication->from) + " -> " + to_string(op.communication->to)));
  }

  const StagedGraph& graph_;
  std::string text_;
};

}  // namespace

std::string to_graphviz(const StagedGraph& graph) { return Writer(graph).run(); }

}  // namespace sextant
