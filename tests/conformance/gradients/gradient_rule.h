// What one gradient rule emits, without a graph around it: the gradients that arrive at the outputs
// are inputs of the graph.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "tests/conformance/signatures/signature_cases.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace sextant {

struct GradientRule {
  LogicalGraph graph{builtin_operators()};
  OpId op;  // the operator; all later ones are its gradient
  std::vector<TensorId> inputs, outputs;
  std::vector<std::optional<TensorId>> arriving;  // by output
  std::vector<std::optional<TensorId>> made;      // by input; nothing: no gradient passes
};

// Applies the rule with gradients arriving at these outputs; every floating input wants one. Throws
// what the rule throws.
GradientRule apply_gradient_rule(const SignatureCase& on, const std::vector<std::size_t>& outputs);

// Outputs of floating type at which the rule accepts a gradient, each alone; none where no input is
// of floating type.
std::vector<std::size_t> differentiable_outputs(const SignatureCase& on);

}  // namespace sextant
