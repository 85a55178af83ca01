// Softmax cross-entropy for model builders: the pieces that may be split over the classes, wired.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>

namespace sextant {

inline constexpr std::int64_t kIgnoreIndex = -100;

struct LossTensors {
  TensorId loss_sum, token_count;  // scalars, for LogicalGraph::set_loss
};

// logits [..., V] of any floating type, labels [...] integer; labels equal to `ignore_index` count
// nothing. Operators are named `name`.max, .sum_exp, .pick and `name`.
//
// `smoothing` is the share of a label that is spread evenly over all V classes, its own included:
// log(sum) + max - (1 - smoothing) x[label] - smoothing / V (sum of x). The sum over the classes
// (.total) is one over all shards, like the others.
LossTensors softmax_cross_entropy(LogicalGraph& graph, TensorId logits, TensorId labels,
                                  const std::string& name, int layer,
                                  std::int64_t ignore_index = kIgnoreIndex, double smoothing = 0.0);

}  // namespace sextant
