// The operations that cuDNN recognises as attention. K and V^T are views of k and v through
// strides.
#include "backends/cuda/kernels/attention/attention_graphs.h"

#ifdef SEXTANT_HAS_CUDNN

#include <limits>

namespace sextant {
namespace {

using Tensor = CudnnGraph::Tensor;
using Dims = CudnnGraph::Dims;

// Heads of [batch, sequence, heads, size] as matrices [batch, heads, sequence, size].
Tensor rows(CudnnGraph& graph, std::int64_t batch, std::int64_t sequence, std::int64_t heads,
            std::int64_t size, cudnnDataType_t type) {
  return graph.tensor({batch, heads, sequence, size},
                      {sequence * heads * size, size, heads * size, 1}, type);
}

Tensor columns(CudnnGraph& graph, std::int64_t batch, std::int64_t sequence, std::int64_t heads,
               std::int64_t size, cudnnDataType_t type) {
  return graph.tensor({batch, heads, size, sequence},
                      {sequence * heads * size, size, 1, heads * size}, type);
}

// What both graphs need of a problem, and the chain from q and k^T to scores of what is seen.
class Scores {
 public:
  Scores(CudnnGraph& graph, const AttentionProblem& x)
      : graph_(graph), problem_(x), scale_(graph.scalar(x.scale, 4)) {}

  Dims dims() const { return {problem_.batch, problem_.heads, problem_.queries, problem_.keys}; }
  Dims row_dims() const { return {problem_.batch, problem_.heads, problem_.queries, 1}; }
  Tensor between() { return graph_.between(dims()); }
  Tensor row() { return graph_.between(row_dims()); }

  Tensor masked(Tensor q, Tensor k_transposed) {
    const Tensor products = between(), scaled = between();
    graph_.matmul(q, k_transposed, products);
    graph_.pointwise(CUDNN_POINTWISE_MUL, products, scale_, scaled);
    if (!problem_.causal) return scaled;
    const Tensor masked = between();
    graph_.select(visible(scaled), scaled,
                  graph_.scalar(-std::numeric_limits<float>::infinity(), 4), masked);
    return masked;
  }
  Tensor scale() const { return scale_; }

 private:
  // Where the key is not after the query.
  Tensor visible(Tensor scores) {
    const Tensor query = graph_.between(dims(), CUDNN_DATA_INT32);
    graph_.index(scores, 2, query);
    Tensor last = query;
    if (problem_.ahead != 0) {
      last = graph_.between(dims(), CUDNN_DATA_INT32);
      graph_.add_index(query, static_cast<std::int32_t>(problem_.ahead), last);
    }
    const Tensor key = graph_.between(dims(), CUDNN_DATA_INT32);
    graph_.index(scores, 3, key);
    const Tensor visible = graph_.between(dims(), CUDNN_DATA_BOOLEAN);
    graph_.compare(CUDNN_POINTWISE_CMP_GE, last, key, visible);
    return visible;
  }

  CudnnGraph& graph_;
  const AttentionProblem& problem_;
  Tensor scale_;
};

}  // namespace

AttentionForward::AttentionForward(const AttentionProblem& x) {
  q = rows(graph, x.batch, x.queries, x.heads, x.size, x.type);
  k = columns(graph, x.batch, x.keys, x.kv_heads, x.size, x.type);
  v = rows(graph, x.batch, x.keys, x.kv_heads, x.value_size, x.type);
  o = rows(graph, x.batch, x.queries, x.heads, x.value_size, x.type);
  lse = graph.tensor({x.batch, x.heads, x.queries, 1}, {x.queries * x.heads, 1, x.heads, 1},
                     CUDNN_DATA_FLOAT);
  Scores scores(graph, x);
  const Tensor masked = scores.masked(q, k);
  const Tensor largest = scores.row(), lowered = scores.between(), weights = scores.between();
  graph.reduce(CUDNN_REDUCE_TENSOR_MAX, masked, largest);
  graph.pointwise(CUDNN_POINTWISE_SUB, masked, largest, lowered);
  graph.pointwise(CUDNN_POINTWISE_EXP, lowered, weights);
  const Tensor sum = scores.row(), logarithm = scores.row();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, weights, sum);
  graph.pointwise(CUDNN_POINTWISE_LOG, sum, logarithm);
  graph.pointwise(CUDNN_POINTWISE_ADD, largest, logarithm, lse);
  const Tensor p = graph.between(scores.dims(), x.type);
  graph.pointwise(CUDNN_POINTWISE_DIV, weights, sum, p);
  graph.matmul(p, v, o);
}

namespace {

// Products of the transpose of `weights` with `values`; heads of a group add up.
void add_transposed(CudnnGraph& graph, const AttentionProblem& x, Tensor weights, Tensor values,
                    std::int64_t size, Tensor out) {
  const std::int64_t scores = x.queries * x.keys;
  const Tensor transposed = graph.between({x.batch, x.heads, x.keys, x.queries},
                                          {x.heads * scores, scores, 1, x.keys}, x.type);
  graph.reshape(weights, transposed);
  if (x.heads == x.kv_heads) {
    graph.matmul(transposed, values, out);
    return;
  }
  const Tensor of_heads = graph.between({x.batch, x.heads, x.keys, size}, x.type);
  graph.matmul(transposed, values, of_heads);
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, of_heads, out);
}

}  // namespace

AttentionBackward::AttentionBackward(const AttentionProblem& x, bool sums_in_order) : sum_dq(0) {
  q = rows(graph, x.batch, x.queries, x.heads, x.size, x.type);
  k = columns(graph, x.batch, x.keys, x.kv_heads, x.size, x.type);
  v = columns(graph, x.batch, x.keys, x.kv_heads, x.value_size, x.type);
  o = rows(graph, x.batch, x.queries, x.heads, x.value_size, x.type);
  d_o = rows(graph, x.batch, x.queries, x.heads, x.value_size, x.type);
  dq = rows(graph, x.batch, x.queries, x.heads, x.size, x.type);
  dk = rows(graph, x.batch, x.keys, x.kv_heads, x.size, x.type);
  dv = rows(graph, x.batch, x.keys, x.kv_heads, x.value_size, x.type);
  Scores scores(graph, x);
  const Dims row_strides{x.heads * x.queries, x.queries, 1, 1};
  lse = graph.tensor(scores.row_dims(), row_strides, CUDNN_DATA_FLOAT);
  delta = graph.tensor(scores.row_dims(), row_strides, CUDNN_DATA_FLOAT);

  const Tensor products = graph.between(
      {x.batch, x.heads, x.queries, x.value_size},
      {x.heads * x.queries * x.value_size, x.queries * x.value_size, x.heads * x.value_size, 1},
      CUDNN_DATA_FLOAT);
  graph.pointwise(CUDNN_POINTWISE_MUL, d_o, o, products);
  const Tensor sums = scores.row();
  graph.reduce(CUDNN_REDUCE_TENSOR_ADD, products, sums);
  graph.pointwise(CUDNN_POINTWISE_MUL, sums, graph.scalar(1, 4), delta);

  const Tensor masked = scores.masked(q, k);
  const Tensor logarithms = scores.between(), p = scores.between();
  graph.pointwise(CUDNN_POINTWISE_SUB, masked, lse, logarithms);
  graph.pointwise(CUDNN_POINTWISE_EXP, logarithms, p);
  add_transposed(graph, x, p, d_o, x.value_size, dv);

  const Tensor dp = scores.between(), lowered = scores.between(), weighted = scores.between(),
               ds = scores.between();
  graph.matmul(d_o, v, dp);
  graph.pointwise(CUDNN_POINTWISE_SUB, dp, delta, lowered);
  graph.pointwise(CUDNN_POINTWISE_MUL, lowered, p, weighted);
  graph.pointwise(CUDNN_POINTWISE_MUL, weighted, scores.scale(), ds);
  add_transposed(graph, x, ds, q, x.size, dk);

  const Tensor k_rows =
      graph.between({x.batch, x.kv_heads, x.keys, x.size},
                    {x.keys * x.kv_heads * x.size, x.size, x.kv_heads * x.size, 1}, x.type);
  graph.reshape(k, k_rows);
  if (sums_in_order) {
    graph.matmul(ds, k_rows, dq);
    return;
  }
  sum_dq =
      graph.tensor({x.batch, x.heads, x.queries, x.size},
                   {x.heads * x.queries * x.size, x.queries * x.size, x.size, 1}, CUDNN_DATA_FLOAT);
  graph.matmul(ds, k_rows, sum_dq);
  graph.pointwise(CUDNN_POINTWISE_IDENTITY, sum_dq, dq);
}

}  // namespace sextant

#endif
