// Copies refer to copies: by number, never by name.
#include "core/graphs/graph_rewriter.h"

#include "core/base/check.h"

#include <utility>

namespace sextant {

TensorId GraphRewriter::copied(TensorId tensor) const {
  SEXTANT_INVARIANT(tensors_[tensor.index()].is_valid(), "nothing stands for tensor '{}' yet",
                    original_.tensor(tensor).name);
  return tensors_[tensor.index()];
}

std::vector<TensorId> GraphRewriter::copied(std::span<const TensorId> tensors) const {
  std::vector<TensorId> copies;
  copies.reserve(tensors.size());
  for (const TensorId tensor : tensors) copies.push_back(copied(tensor));
  return copies;
}

std::optional<OpId> GraphRewriter::copied(OpId op) const {
  const OpId copy = ops_[op.index()];
  return copy.is_valid() ? std::optional(copy) : std::nullopt;
}

void GraphRewriter::stand_for(OpId op, OpId copy) {
  ops_[op.index()] = copy;
  const std::vector<TensorId>& outputs = original_.op(op).outputs;
  for (std::size_t i = 0; i < outputs.size(); ++i) stand_for(outputs[i], graph_.output(copy, i));
}

OpId GraphRewriter::copy(OpId op) {
  LogicalOp copied_op = original_.op(op);
  copied_op.inputs = copied(copied_op.inputs);
  if (copied_op.recompute_of) copied_op.recompute_of = copied(*copied_op.recompute_of);
  return put(std::move(copied_op), op);
}

OpId GraphRewriter::put(LogicalOp changed, OpId in_place_of) {
  changed.outputs.clear();
  const OpId added = graph_.add(std::move(changed));
  stand_for(in_place_of, added);
  return added;
}

OpId GraphRewriter::add_part(const LogicalOp& of, std::string kind, std::string name,
                             std::vector<TensorId> inputs, Attributes attributes,
                             std::optional<OpId> repeats) {
  return graph_.add({.kind = std::move(kind),
                     .name = std::move(name),
                     .attributes = std::move(attributes),
                     .inputs = std::move(inputs),
                     .outputs = {},
                     .phase = of.phase,
                     .layer = of.layer,
                     .parameter = std::nullopt,
                     .recompute_of = repeats});
}

LogicalGraph GraphRewriter::finish() && {
  if (original_.loss_sum())
    graph_.set_loss(copied(*original_.loss_sum()), copied(*original_.token_count()));
  return std::move(graph_);
}

}  // namespace sextant
