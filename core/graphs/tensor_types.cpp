// One look at the graph per tensor.
#include "core/graphs/tensor_types.h"

namespace sextant {

std::vector<TensorType> types_of(const LogicalGraph& graph, const std::vector<TensorId>& tensors) {
  std::vector<TensorType> types;
  types.reserve(tensors.size());
  for (const TensorId tensor : tensors) types.push_back(graph.tensor(tensor).type);
  return types;
}

}  // namespace sextant
