// The loss as PyTorch's eager cross_entropy runs it: logits are cast to f32, their logarithms of
// softmax are kept for backward, and the gradients of both steps lie in memory as f32 before the
// last is cast back. For predictions only: no backend has kernels of these kinds.
#pragma once

#include "core/logical_graph.h"
#include "core/operator.h"

namespace sextant {

// The built-in operators, log_softmax and nll_loss with their gradients.
const OperatorRegistry& written_loss_operators();

// A copy of a forward graph of built-in operators with every `cross_entropy` written out. Its rows
// split tokens alone, so a head that is split over classes would be gathered: leave those as they
// are. Throws Error(kInfeasible) for smoothed labels.
LogicalGraph with_written_loss(const LogicalGraph& forward);

}  // namespace sextant
