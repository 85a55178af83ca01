// Attention and its gradient as cuDNN graphs, which cuDNN runs as one fused kernel each. Empty
// where the build has no cuDNN.
#pragma once

#ifdef SEXTANT_HAS_CUDNN

#include "backends/cuda/cudnn_graph.h"
#include "backends/cuda/kernels/attention/attention_shape.h"

#include <cstdint>

namespace sextant {

// Sequences where query s sees the keys up to s + `ahead`, all of them unless `causal`; all heads
// of a group lie together.
struct AttentionProblem {
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, size = 0, value_size = 0;
  std::int64_t ahead = 0;
  bool causal = true;
  float scale = 1;
};

struct AttentionForward {
  CudnnGraph graph;
  CudnnGraph::Tensor q, k, v, o, lse;  // lse [batch, queries, heads], as our operator has it
  explicit AttentionForward(const AttentionProblem& problem);
};

// With `sums_in_order` the gradients of scores lie in workspace instead of being added to dq as
// they come: the same bits in every run, and memory that grows with queries times keys.
struct AttentionBackward {
  CudnnGraph graph;
  CudnnGraph::Tensor q, k, v, o, lse, d_o, dq, dk, dv;
  CudnnGraph::Tensor delta, sum_dq;  // f32 scratch; sum_dq is 0 with sums_in_order
  // lse as cuDNN reads it before 9.26: [batch, heads, queries].
  AttentionBackward(const AttentionProblem& problem, bool sums_in_order);
};

}  // namespace sextant

#endif
