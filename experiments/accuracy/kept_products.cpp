// Counts the products of each block in the order of forward.
#include "experiments/accuracy/kept_products.h"

#include "core/graphs/phase.h"

namespace sextant {

std::vector<bool> kept_products(const LogicalGraph& training) {
  std::vector<bool> kept(training.ops().size(), false);
  std::vector<int> products(static_cast<std::size_t>(training.num_layers()), 0);
  for (std::size_t index = 0; index < training.ops().size(); ++index) {
    const LogicalOp& op = training.op(OpId(index));
    if (op.phase != Phase::kForward || op.layer < 0) continue;
    if (op.role == OperatorRole::kProduct || op.role == OperatorRole::kScaledProduct)
      kept[index] = products[static_cast<std::size_t>(op.layer)]++ % 2 == 0;
    else
      kept[index] = op.role == OperatorRole::kAttention;
  }
  return kept;
}

std::set<std::string> names_of(const LogicalGraph& training, const std::vector<bool>& operators) {
  std::set<std::string> names;
  for (std::size_t index = 0; index < operators.size(); ++index)
    if (operators[index]) names.insert(training.op(OpId(index)).name);
  return names;
}

}  // namespace sextant
