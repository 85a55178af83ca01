// Reverse-mode differentiation on the logical graph, from the operators' gradient rules.
#pragma once

#include "core/logical_graph.h"

#include <string>
#include <vector>

namespace sextant {

struct ParameterGradient {
  OpId parameter;     // a `parameter` operator
  TensorId gradient;  // summed over its uses
};

// Appends the operators that compute the gradient of the loss sum for every parameter, in order of
// the parameters. Labels:
// - weight_grad: the gradient of a tensor that depends on parameters alone (a parameter, its cast);
// - input_grad: every other gradient, and sums of them;
// - optimizer: the sum over several uses of a weight, and what follows from such a sum. Each use
//   accumulates over the step where it is, the sum is formed once per step.
// A gradient operator carries the layer of the operator it differentiates; a sum that of its newest
// term, so that one gradient crosses from layer to layer.
//
// A parameter that an operator of the graph updates already (a running statistic) is not trained.
//
// Throws Error(kBadInput) when the graph has no loss, an operator on the way has no gradient rule
// or a parameter does not reach the loss.
std::vector<ParameterGradient> append_gradients(LogicalGraph& graph);

// `base`, or `base`_2, `base`_3 ... : the first that no operator is named.
std::string unused_name(const LogicalGraph& graph, const std::string& base);

}  // namespace sextant
