// Passes on the logical graph: autodiff and the optimizer.
#pragma once

#include "core/logical_graph.h"

namespace sextant {

struct OptimizerOptions {
  double learning_rate = 3e-4;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;
};

// A copy of a forward graph with a loss, plus gradient operators (labelled input_grad and
// weight_grad) and one `adamw` per parameter, whose inputs are the parameter, the summed gradients
// and the token count of the whole global batch. A parameter used several times gets one gradient
// per use, summed in the optimizer phase (each accumulates on its own stage). Throws
// Error(kBadInput) when a needed operator has no gradient rule.
LogicalGraph make_training_graph(const LogicalGraph& forward, const OptimizerOptions& options = {});

}  // namespace sextant
