// Builders of the toy models.
#include "tests/compiler/toy_models.h"

#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"

#include <string>
#include <utility>

namespace sextant {
namespace {

class Model {
 public:
  explicit Model(DType compute) : graph(builtin_operators()), compute_(compute) {}

  TensorId op(std::string kind, std::string name, std::vector<TensorId> inputs,
              Attributes attributes = {}) {
    return graph.output(graph.add({.kind = std::move(kind),
                                   .name = std::move(name),
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .layer = layer,
                                   .parameter = std::nullopt}));
  }

  TensorId parameter(const std::string& name, Shape shape, std::optional<std::size_t> tp_dim) {
    ParameterInfo info;
    info.initializer = {Initializer::Kind::kNormal, 0.02};
    info.tensor_parallel_dim = tp_dim;
    const TensorId stored =
        add_parameter(graph, name, layer, {std::move(shape), DType::kF32}, info);
    if (compute_ == DType::kF32) return stored;
    return op("cast", name + ".cast", {stored}, {{"dtype", std::string(to_string(compute_))}});
  }

  TensorId norm(const std::string& name, TensorId x, std::int64_t hidden) {
    return op("layer_norm", name,
              {x, parameter(name + ".gamma", {hidden}, std::nullopt),
               parameter(name + ".beta", {hidden}, std::nullopt)},
              {{"epsilon", 1e-5}});
  }

  TensorId column(const std::string& name, TensorId x, std::int64_t in, std::int64_t out) {
    const TensorId y = op("matmul", name, {x, parameter(name + ".w", {in, out}, 1)});
    return op("bias_add", name + ".bias", {y, parameter(name + ".b", {out}, 0)});
  }

  TensorId row(const std::string& name, TensorId x, std::int64_t in, std::int64_t out) {
    const TensorId y = op("matmul", name, {x, parameter(name + ".w", {in, out}, 0)});
    return op("bias_add", name + ".bias", {y, parameter(name + ".b", {out}, std::nullopt)});
  }

  LogicalGraph graph;
  int layer = 0;

 private:
  DType compute_;
};

}  // namespace

LogicalGraph toy_gpt(const ToyGpt& c) {
  Model m(c.compute);
  const std::int64_t head_size = c.hidden / c.heads;
  const TensorId tokens =
      add_input(m.graph, "tokens", 0, {{c.batch, c.sequence}, DType::kI32}, {c.vocab, {}});
  const TensorId table = m.parameter("embedding.tokens", {c.vocab, c.hidden}, 0);
  TensorId x = m.op("embedding", "embedding", {tokens, table});
  x = m.op("bias_add", "embedding.add_positions",
           {x, m.parameter("embedding.positions", {c.sequence, c.hidden}, std::nullopt)});
  for (int i = 0; i < c.layers; ++i) {
    m.layer = i + 1;
    const std::string name = "layer" + std::to_string(i) + ".";
    const TensorId normed = m.norm(name + "norm1", x, c.hidden);
    const auto heads = [&](const std::string& which, std::int64_t count) {
      const TensorId y = m.column(name + which, normed, c.hidden, count * head_size);
      return m.op("reshape", name + which + ".heads", {y},
                  {{"shape", std::vector<std::int64_t>{c.batch, c.sequence, count, head_size}}});
    };
    const TensorId q = heads("q", c.heads), k = heads("k", c.kv_heads), v = heads("v", c.kv_heads);
    TensorId y =
        m.op("attention", name + "attention", {q, k, v}, {{"group", c.heads / c.kv_heads}});
    y = m.op("reshape", name + "merge", {y},
             {{"shape", std::vector<std::int64_t>{c.batch, c.sequence, c.heads * head_size}}});
    x = m.op("add", name + "residual1", {x, m.row(name + "o", y, c.heads * head_size, c.hidden)});
    y = m.column(name + "up", m.norm(name + "norm2", x, c.hidden), c.hidden, c.ffn);
    y = m.op("gelu", name + "gelu", {y}, {{"approximate", std::string("tanh")}});
    x = m.op("add", name + "residual2", {x, m.row(name + "down", y, c.ffn, c.hidden)});
  }
  m.layer = c.layers + 1;
  x = m.norm("final_norm", x, c.hidden);
  const TensorId head = c.tied ? table : m.parameter("head", {c.vocab, c.hidden}, 0);
  const TensorId logits = m.op("matmul", "logits", {x, head}, {{"transpose_w", true}});
  const TensorId labels =
      add_input(m.graph, "labels", m.layer, {{c.batch, c.sequence}, DType::kI32}, {c.vocab, -100});
  const LossTensors loss = softmax_cross_entropy(m.graph, logits, labels, "loss", m.layer);
  m.graph.set_loss(loss.loss_sum, loss.token_count);
  return std::move(m.graph);
}

LogicalGraph toy_mlp(std::int64_t batch, std::int64_t in, std::int64_t hidden,
                     std::int64_t classes) {
  Model m(DType::kF32);
  const TensorId ids = add_input(m.graph, "ids", 0, {{batch}, DType::kI32}, {in, {}});
  TensorId x = m.op("embedding", "rows", {ids, m.parameter("table", {in, in}, std::nullopt)});
  m.layer = 1;
  x = m.op("gelu", "gelu", {m.column("up", x, in, hidden)}, {{"approximate", std::string("tanh")}});
  m.layer = 2;
  x = m.row("down", x, hidden, classes);
  m.layer = 3;
  const TensorId labels = add_input(m.graph, "labels", 3, {{batch}, DType::kI32}, {classes, -100});
  const LossTensors loss = softmax_cross_entropy(m.graph, x, labels, "loss", 3);
  m.graph.set_loss(loss.loss_sum, loss.token_count);
  return std::move(m.graph);
}

}  // namespace sextant
