// Reverse-mode differentiation on the logical graph, from the operators' gradient rules.
#pragma once

#include "core/graphs/logical_graph.h"

#include <optional>
#include <string>
#include <vector>

namespace sextant {

struct ParameterGradient {
  OpId parameter;     // a `parameter` operator
  TensorId gradient;  // summed over its uses
};

struct GradientOptions {
  // The derivative of the loss sum, which scales every gradient; a scalar of the type of the loss.
  // Nothing: 1.
  std::optional<TensorId> seed;
  // Gradients of weights have the type in which the weight is used, and those of its cast to that
  // type are left as they are: a gradient may then be narrower than its parameter. Otherwise they
  // are kept in the accumulator type.
  bool in_compute_type = false;
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
// a parameter does not reach the loss, or the seed is no such scalar.
std::vector<ParameterGradient> append_gradients(LogicalGraph& graph,
                                                const GradientOptions& options = {});

// `base`, or `base`_2, `base`_3 ... : the first that no operator is named.
std::string unused_name(const LogicalGraph& graph, const std::string& base);

}  // namespace sextant
