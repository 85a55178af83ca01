// A classifier whose last layer outgrows the rest, as in face recognition: features, a few hidden
// layers, and a weight with a column per class (the paper's Fig. 11b: data parallel up to it, split
// by classes from there).
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sextant {

struct ClassHeadConfig {
  std::string name;
  std::int64_t features = 512;
  std::vector<std::int64_t> hidden = {512};
  std::int64_t classes = 1'000'000;
  double initializer_range = 0.02;
  double label_smoothing = 0.0;
  bool operator==(const ClassHeadConfig&) const = default;
};

// Throws Error(kBadInput) naming the value.
void validate(const ClassHeadConfig& config);

// Forward graph with loss for one micro-batch: inputs `features` [batch, features] and `labels`
// [batch] i32. Layer 0 is the input, 1..L the hidden layers, L+1 head and loss. Tensor parallelism
// splits `head.weight` [hidden, classes] by classes and nothing else; with data parallelism alone
// "pin=head.weight:(S(1),B)" does.
LogicalGraph build_graph(const ClassHeadConfig& config, std::int64_t batch, DType dtype);

}  // namespace sextant
