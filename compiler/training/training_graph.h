// Passes on the logical graph: autodiff, the optimizer, and what a strategy asks for.
#pragma once

#include "compiler/strategy/strategy.h"
#include "compiler/training/optimizer_options.h"
#include "core/graphs/logical_graph.h"

#include <string>

namespace sextant {

// A copy of a forward graph with a loss, plus gradient operators (labelled input_grad and
// weight_grad) and one update per parameter, which reads the parameter, the summed gradients and
// the control of the step (compiler/training/optimizer.h). A parameter used several times gets one
// gradient per use, summed in the optimizer phase (each accumulates on its own stage). Throws
// Error(kBadInput) when a needed operator has no gradient rule, Error(kUsage) for options that
// cannot be.
LogicalGraph make_training_graph(const LogicalGraph& forward, const OptimizerOptions& options = {});

// The training graph with what a strategy asks of it: recomputation, attention over split
// sequences.
LogicalGraph make_training_graph(const LogicalGraph& forward, const Strategy& strategy,
                                 const OptimizerOptions& options = {});

// Equal for strategies whose training graphs are equal if they start from the same model: samples
// per act and everything that the overload above looks at.
std::string training_graph_key(const Strategy& strategy);

}  // namespace sextant
