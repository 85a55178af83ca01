// A forward graph written out again, operator by operator, with other kinds in the place of some.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sextant {

class GraphWriter {
 public:
  // Borrows both; `operators` knows the kinds of the result.
  GraphWriter(const LogicalGraph& forward, const OperatorRegistry& operators)
      : forward_(forward), graph_(operators), copies_(forward.tensors().size()) {}

 protected:
  // What stands for a tensor of the forward graph that is written already.
  TensorId copied(TensorId tensor) const { return copies_[tensor.index()]; }
  void stand_for(TensorId tensor, TensorId copy) { copies_[tensor.index()] = copy; }
  void stand_for(const std::vector<TensorId>& outputs, OpId added) {
    for (std::size_t i = 0; i < outputs.size(); ++i) stand_for(outputs[i], graph_.output(added, i));
  }

  void copy(LogicalOp op) {
    const std::vector<TensorId> outputs = std::exchange(op.outputs, {});
    for (TensorId& input : op.inputs) input = copied(input);
    stand_for(outputs, graph_.add(std::move(op)));
  }

  // An operator that another one of the forward graph becomes, wholly or in part.
  OpId add(const LogicalOp& origin, std::string kind, std::string name,
           std::vector<TensorId> inputs, Attributes attributes = {}) {
    LogicalOp op;
    op.kind = std::move(kind);
    op.name = std::move(name);
    op.attributes = std::move(attributes);
    op.inputs = std::move(inputs);
    op.layer = origin.layer;
    return graph_.add(std::move(op));
  }

  LogicalGraph finish() {
    if (forward_.loss_sum())
      graph_.set_loss(copied(*forward_.loss_sum()), copied(*forward_.token_count()));
    return std::move(graph_);
  }

  const LogicalGraph& forward_;
  LogicalGraph graph_;

 private:
  std::vector<TensorId> copies_;
};

}  // namespace sextant
