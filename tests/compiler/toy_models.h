// Small models for tests of staging: an MLP and a GPT in the usual shape, built operator by
// operator.
#pragma once

#include "core/graphs/logical_graph.h"

#include <cstdint>

namespace sextant {

struct ToyGpt {
  int layers = 2;
  std::int64_t batch = 4, sequence = 6, hidden = 8, heads = 4, kv_heads = 4, vocab = 10, ffn = 16;
  DType compute = DType::kF32;  // parameters are f32 and cast where this differs
  bool tied = true;
};

// Forward graph with loss. Layer 0 embeds, the last layer holds the final norm, head and loss.
LogicalGraph toy_gpt(const ToyGpt& config);

// x [batch, in] -> columns -> gelu -> rows -> loss over `classes`, in layers 0..3: inputs, the
// column-parallel product, the row-parallel product, the loss.
LogicalGraph toy_mlp(std::int64_t batch, std::int64_t in, std::int64_t hidden,
                     std::int64_t classes);

}  // namespace sextant
