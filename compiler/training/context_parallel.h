// Attention over a sequence that is split over devices, as a ring: keys and values pass from device
// to device while each attends to what it has. A rewriting of the training graph that knows no
// devices: chunks of the sequence are rolled along it, which on one device is an ordinary operator.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"

namespace sextant {

// With cp=C cp_mode=ring every `attention` and `attention_grad` becomes C partial ones, on keys and
// values rolled by 0 .. C-1 chunks, each roll made from the one before:
// - forward merges the partial results by their log-sum-exps;
// - backward rolls keys and values again (nothing but one chunk is kept from forward), reads o and
//   lse of the whole, and rolls the gradients of keys and values along with them, home at the end.
// Other strategies get a copy. It comes after differentiation and recomputation, which see
// attention as one operator. Throws Error(kInfeasible), naming the operator, for a sequence that C
// does not divide and for keys of other positions than the queries.
LogicalGraph with_rings(LogicalGraph training, const Strategy& strategy);

}  // namespace sextant
