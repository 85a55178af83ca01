// Wide & Deep (arXiv 1606.07792): sparse tables beside a multi-layer perceptron, for yes or no.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

struct WideDeepConfig {
  std::string name;
  std::int64_t wide_fields = 2, wide_vocab = 10'000;  // each id adds one number to the answer
  std::int64_t deep_fields = 26, deep_vocab = 100'000, embedding = 16;
  std::int64_t dense = 13;  // features that are numbers
  std::vector<std::int64_t> hidden = {1024, 1024, 1024};
  double initializer_range = 0.02;
  bool operator==(const WideDeepConfig&) const = default;
};

// Throws Error(kBadInput) naming the value.
void validate(const WideDeepConfig& config);

// Forward graph with loss for one micro-batch: inputs `deep_ids` [batch, deep_fields], `wide_ids`
// [batch, wide_fields] and `labels` [batch] i32, `dense` [batch, dense]. All fields of a side share
// one table. Layer 0 looks up the deep ids, 1..L are the hidden layers, L+1 the answer, to which
// the wide ids add, and the loss.
//
// The loss is binary cross-entropy with the logit z: softmax cross-entropy of the logits (0, z).
// Tensor parallelism splits the tables by rows and the layers alternately by columns and rows.
LogicalGraph build_graph(const WideDeepConfig& config, std::int64_t batch, DType dtype);

}  // namespace sextant
