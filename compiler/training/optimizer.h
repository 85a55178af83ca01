// The optimizer pass: from the gradients of a step to the updates of its parameters, with what
// stands between them (clipping, loss scale, the division by the tokens).
#pragma once

#include "compiler/training/autodiff.h"
#include "compiler/training/optimizer_options.h"
#include "core/graphs/logical_graph.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

// By what the loss is multiplied in one graph: 1, a constant, or a state of the step.
struct ScaledLoss {
  std::optional<TensorId> seed;   // of autodiff; nothing: 1
  double constant = 1.0;          // where there is no state
  std::optional<TensorId> state;  // the scale, read by the next steps
};

// Appends the seed of autodiff, where the loss is scaled: `loss_scale` in the layer of the loss.
ScaledLoss add_loss_scale(LogicalGraph& graph, const LossScale& scale);

// A value of a step that is worth a line in its metrics.
struct Metric {
  std::string name;
  TensorId value;
};

// Appends, in this order:
// - where gradients are clipped or the loss is scaled: `gradient_stats` of every gradient, added up
//   layer by layer from the first to the last, so that equal layers stay equal and one small tensor
//   crosses from stage to stage;
// - `update_control` in the layer of the loss, and the update of a dynamic loss scale;
// - the update of every parameter, in the parameter's layer.
// Returns grad_norm and loss_scale where they exist. Throws Error(kBadInput) for a parameter that
// is not f32 or f64.
std::vector<Metric> add_updates(LogicalGraph& graph, std::span<const ParameterGradient> gradients,
                                const ScaledLoss& scaled, const OptimizerOptions& options);

}  // namespace sextant
