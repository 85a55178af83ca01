// A logical graph written out again, operator by operator, with others in the place of some.
#pragma once

#include "core/base/ids.h"
#include "core/graphs/logical_graph.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// Whoever rewrites goes through the operators of the original in order and copies them, or adds
// others and says what stands for the tensors of the old ones. What a copy() repeats
// (LogicalOp::recompute_of) is the copy of what the original repeats.
class GraphRewriter {
 public:
  // Borrows both; `operators` knows the kinds of the result.
  GraphRewriter(const LogicalGraph& original, const OperatorRegistry& operators)
      : original_(original),
        graph_(operators),
        tensors_(original.tensors().size()),
        ops_(original.ops().size()) {}
  explicit GraphRewriter(const LogicalGraph& original)
      : GraphRewriter(original, original.registry()) {}

  const LogicalGraph& original() const { return original_; }
  // As far as it is written.
  LogicalGraph& graph() { return graph_; }
  const LogicalGraph& graph() const { return graph_; }

  // What stands for a tensor of the original that is written already.
  TensorId copied(TensorId tensor) const;
  std::vector<TensorId> copied(std::span<const TensorId> tensors) const;
  // What stands for an operator; nothing where none or several do.
  std::optional<OpId> copied(OpId op) const;

  void stand_for(TensorId tensor, TensorId copy) { tensors_[tensor.index()] = copy; }
  // For an operator and, one by one, its outputs.
  void stand_for(OpId op, OpId copy);

  // The operator with what stands for its inputs.
  OpId copy(OpId op);
  // `changed`, which reads tensors and repeats an operator of the result, in the place of an
  // operator.
  OpId put(LogicalOp changed, OpId in_place_of);

  // An operator that one of the original becomes in part: of its layer and phase, with attributes
  // and inputs of its own; `repeats` is one of the result.
  OpId add_part(const LogicalOp& of, std::string kind, std::string name,
                std::vector<TensorId> inputs, Attributes attributes = {},
                std::optional<OpId> repeats = std::nullopt);

  // With the loss that stands for the original's.
  LogicalGraph finish() &&;

 private:
  const LogicalGraph& original_;
  LogicalGraph graph_;
  std::vector<TensorId> tensors_;  // by tensor of the original
  std::vector<OpId> ops_;          // by operator of the original
};

}  // namespace sextant
