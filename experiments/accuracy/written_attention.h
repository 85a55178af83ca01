// Attention as programs before FlashAttention ran it: a product of batches, a kernel for scale,
// mask and softmax, one for dropout and its mask, and a second product. Everything between them
// lies in memory, and so do the masks of every dropout. For predictions only: no backend has
// kernels of these kinds.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"

namespace sextant {

// The built-in operators, `dropout` with its mask as a second output, and attention_scores,
// _probabilities, _dropout and _context with their gradients.
const OperatorRegistry& written_attention_operators();

// A copy of a forward graph with every `attention` written out. Throws Error(kInfeasible) for
// attention whose query heads share key/value heads: no program of that time had it.
LogicalGraph with_written_attention(const LogicalGraph& forward, double dropout);

}  // namespace sextant
