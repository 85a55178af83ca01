// Operators of one building block.
#include "core/operators/reductions/block_builder.h"

#include <utility>

namespace sextant {

BlockBuilder::BlockBuilder(LogicalGraph& graph, std::string name, int layer)
    : graph_(&graph), name_(std::move(name)), layer_(layer) {}

TensorId BlockBuilder::add(std::string_view kind, std::string_view part,
                           std::vector<TensorId> inputs, Attributes attributes) {
  std::string name = part.empty() ? name_ : name_ + "." + std::string(part);
  return graph_->output(graph_->add({.kind = std::string(kind),
                                     .name = std::move(name),
                                     .attributes = std::move(attributes),
                                     .inputs = std::move(inputs),
                                     .outputs = {},
                                     .phase = Phase::kForward,
                                     .layer = layer_,
                                     .parameter = std::nullopt}));
}

}  // namespace sextant
