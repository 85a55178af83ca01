// Activations that backward makes again instead of keeping them from forward.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"

#include <string>
#include <vector>

namespace sextant {

// The training graph in which the layers, or their attention, that `strategy.recompute` names run
// forward again inside backward: operators whose results gradient operators of their layer read are
// repeated (Phase::kRecompute, `recompute_of`) right before the layer's first gradient operator,
// and the gradient operators read the repetitions. A repetition reads what the layer keeps: tensors
// of other layers, of operators that are not chosen, parameters and what is made of them once per
// step. Never repeated are operators that act once per step, keep state or run on the host, and
// what backward does not read; random operators repeat their values, whose key and act are equal.
//
// Throws Error(kInfeasible) for more layers than any stage has and for selective recomputation of a
// graph without attention.
LogicalGraph with_recompute(LogicalGraph training, const Strategy& strategy);
// Repeats as the strategy says, but for the operators that `kept` says true of: they never repeat.
LogicalGraph with_recompute(LogicalGraph training, const Strategy& strategy,
                            const std::vector<bool>& kept);

// Equal for strategies that repeat the same operators of one graph: what is repeated depends on
// which layers share a stage.
std::string recompute_key(const Strategy& strategy);

// The operators between queries, keys and values and attention's output: attention itself, or,
// written out, everything on a path from one product of batches over a softmax to the next one.
std::vector<bool> attention_core(const LogicalGraph& graph);

}  // namespace sextant
