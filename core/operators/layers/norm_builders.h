// Norms for model builders, in pieces that may be split over any dim, the normalised ones included.
// The fused kinds (`layer_norm`, `rms_norm`) read a row once and are right where no row is split;
// these cost a pass per statistic and one reduction of it where one is.
#pragma once

#include "core/graphs/logical_graph.h"

#include <string>

namespace sextant {

struct NormParameters {
  TensorId gamma, beta;
  double epsilon = 0.0;
};

// Over the last dim of x; gamma and beta [n] of the type of x. Operators are named `name`.mean,
// .squares, .variance, .variance_epsilon, .rstd and `name`; without epsilon also .zero, .varies and
// .root, so that a constant row becomes beta.
TensorId layer_norm_in_pieces(LogicalGraph& graph, TensorId x, const NormParameters& parameters,
                              const std::string& name, int layer);
// Over the last dim of x, without mean; beta is not read.
TensorId rms_norm_in_pieces(LogicalGraph& graph, TensorId x, const NormParameters& parameters,
                            const std::string& name, int layer);

// x [N, C, ...], gamma and beta [C] of the type of x; statistics [C] of its accumulator type, over
// all dims but C and the whole global batch: the same on every device, whatever is split.
struct BatchNorm {
  TensorId y;
  TensorId mean;
  TensorId variance;  // unbiased: divided by one less than the number of values
};
// Throws Error(kBadInput) for less than two values per channel in the global batch: their variance
// says nothing. One value or none *on a device* is fine.
BatchNorm batch_norm(LogicalGraph& graph, TensorId x, const NormParameters& parameters,
                     const std::string& name, int layer);
// (1 - momentum) running + momentum batch: the running mean or variance after a batch.
TensorId running_average(LogicalGraph& graph, TensorId running, TensorId batch, double momentum,
                         const std::string& name, int layer);
// A running mean or variance as state, the parameter `name`: once per step it moves by `momentum`
// towards the average of `batch` over the micro-batches. No gradient reaches it and nothing in
// training reads it.
void keep_running(LogicalGraph& graph, TensorId batch, const std::string& name, double momentum,
                  const ParameterInfo& info);
// With given statistics instead of those of x, as in inference or with frozen statistics.
TensorId batch_norm_given(LogicalGraph& graph, TensorId x, TensorId mean, TensorId variance,
                          const NormParameters& parameters, const std::string& name, int layer);

}  // namespace sextant
