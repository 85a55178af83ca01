// Graphs as PyTorch runs them. Its cross_entropy: logits are cast to f32, their logarithms of
// softmax are kept for backward, and the gradients of both steps lie in memory as f32 before the
// last is cast back. Without a compiler, root-mean-square norms and rotary positions are chains of
// element-wise operators in f32. For predictions only: no backend has kernels of these kinds.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"

namespace sextant {

struct PyTorchGraph {
  // Its rows split tokens alone, so a head that is split over classes would be gathered: leave
  // those as they are. Throws Error(kInfeasible) for smoothed labels.
  bool writes_loss = true;
  bool chains_norms = false;
};

// The built-in operators, log_softmax and nll_loss with their gradients; chained, norms and
// positions move as many bytes as their chains do.
const OperatorRegistry& pytorch_operators(bool chains_norms);

// A copy of a forward graph of built-in operators.
LogicalGraph as_pytorch(const LogicalGraph& forward, const PyTorchGraph& options);

}  // namespace sextant
