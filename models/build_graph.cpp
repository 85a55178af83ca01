// Model config -> forward graph with loss, one micro-batch, global tensors.
#include "core/base/check.h"
#include "core/operators/layers/loss.h"
#include "core/operators/layers/moe.h"
#include "core/operators/layers/rotary_attributes.h"
#include "core/operators/layers/softmax.h"
#include "core/operators/movement/sources.h"
#include "core/operators/pointwise/dropout.h"
#include "models/model.h"
#include "models/model_writer.h"

#include <cmath>
#include <optional>

namespace sextant {
namespace {

// Parts of a layer that say nothing of where in the model they stand: norms, activations, MLPs.
class LayerWriter : protected ModelWriter {
 protected:
  LayerWriter(const ModelConfig& config, DType dtype) : ModelWriter(dtype), config_(config) {}

  TensorId add_mlp(TensorId x) {
    TensorId inner;
    if (config_.mlp == ModelConfig::Mlp::kGelu) {
      const TensorId up = linear(x, name("mlp.up"), config_.hidden, config_.ffn, Cut::kOut,
                                 config_.mlp_bias, weights());
      inner = gelu(up, name("mlp.gelu"));
    } else {
      const TensorId gate = linear(x, name("mlp.gate"), config_.hidden, config_.ffn, Cut::kOut,
                                   config_.mlp_bias, weights());
      const TensorId up = linear(x, name("mlp.up"), config_.hidden, config_.ffn, Cut::kOut,
                                 config_.mlp_bias, weights());
      inner = op("mul", name("mlp.product"), {op("silu", name("mlp.silu"), {gate}), up});
    }
    return linear(inner, name("mlp.down"), config_.ffn, config_.hidden, Cut::kIn, config_.mlp_bias,
                  residual_weights());
  }

  // x [experts, places, hidden], each expert with its own weights.
  TensorId add_expert_mlps(TensorId x) {
    const std::int64_t h = config_.hidden, f = config_.ffn;
    const std::string prefix = name("mlp.experts.");
    TensorId inner;
    if (config_.mlp == ModelConfig::Mlp::kGelu) {
      inner = gelu(expert_linear(x, prefix + "up", h, f, Cut::kOut, weights()), prefix + "gelu");
    } else {
      const TensorId gate = expert_linear(x, prefix + "gate", h, f, Cut::kOut, weights());
      const TensorId up = expert_linear(x, prefix + "up", h, f, Cut::kOut, weights());
      inner = op("mul", prefix + "product", {op("silu", prefix + "silu", {gate}), up});
    }
    return expert_linear(inner, prefix + "down", f, h, Cut::kIn, residual_weights());
  }

  TensorId expert_linear(TensorId x, const std::string& prefix, std::int64_t in, std::int64_t out,
                         Cut cut, ParameterInfo info) {
    info.expert_parallel_dim = 0;
    const TensorId w = used(
        parameter(prefix + ".weight", {config_.experts, in, out}, info, cut == Cut::kIn ? 1 : 2));
    return op("batch_matmul", prefix, {x, w});
  }

  // Norm over the last dim, whose extent gives the size of the weights.
  TensorId norm(TensorId x, const std::string& prefix) {
    const Shape& shape = graph_.tensor(x).type.shape;
    const std::int64_t size = shape[shape.rank() - 1];
    const Attributes attributes{{"epsilon", config_.norm_epsilon}};
    const TensorId gamma = used(parameter(prefix + ".weight", {size}, ones(), {}));
    if (config_.norm == ModelConfig::Norm::kRmsNorm)
      return op("rms_norm", prefix, {x, gamma}, attributes);
    const TensorId beta = used(parameter(prefix + ".bias", {size}, zeros(), {}));
    return op("layer_norm", prefix, {x, gamma, beta}, attributes);
  }

  TensorId gelu(TensorId x, const std::string& op_name) {
    return op("gelu", op_name, {x},
              {{"approximate", std::string(config_.exact_gelu ? "none" : "tanh")}});
  }

  ParameterInfo weights() const { return normal(config_.initializer_range); }
  // Projections back into the residual stream start smaller, by 1 / sqrt(2 layers): each layer adds
  // two of them (GPT-2, Megatron-LM). Behind a norm of each sum there is no reason to.
  ParameterInfo residual_weights() const {
    if (config_.post_norm) return weights();
    const double scale = 1.0 / std::sqrt(2.0 * static_cast<double>(config_.layers));
    return normal(config_.initializer_range * scale);
  }

  const ModelConfig& config_;
};

class TransformerBuilder : private LayerWriter {
 public:
  TransformerBuilder(const ModelConfig& config, std::int64_t batch, std::int64_t sequence,
                     DType dtype)
      : LayerWriter(config, dtype), batch_(batch), sequence_(sequence) {}

  LogicalGraph build() {
    const TypedInputs inputs = add_inputs();
    TensorId x = embed(inputs.tokens);
    for (layer_ = 1; layer_ <= config_.layers; ++layer_) x = add_block(x);
    add_head(x, inputs.labels);
    return take();
  }

 private:
  struct TypedInputs {
    TensorId tokens, labels;
  };

  TypedInputs add_inputs() {
    const TensorType ids{.shape = {batch_, sequence_}, .dtype = DType::kI32};
    const int last_layer = static_cast<int>(config_.layers) + 1;
    const auto mask = config_.causal ? std::nullopt : std::optional(config_.mask_id);
    return {.tokens = add_input(graph_, "tokens", 0, ids,
                                {.limit = config_.vocab, .ignored = std::nullopt, .mask = mask}),
            .labels = add_input(graph_, "labels", last_layer, ids,
                                {.limit = config_.vocab, .ignored = kIgnoreIndex, .mask = mask})};
  }

  TensorId embed(TensorId tokens) {
    table_ = parameter("embedding.weight", {config_.vocab, config_.hidden}, weights(), 0);
    // Looked up in the parameter's own type: casting the rows is cheaper than casting the table.
    TensorId x = cast(op("embedding", "embedding", {tokens, table_}), "embedding.cast");
    if (config_.positions == ModelConfig::Positions::kLearned) x = add_positions(x);
    if (config_.token_types > 0) x = add_token_type(x);
    if (config_.embedding_norm) x = norm(x, "embedding.norm");
    return dropped(x, "embedding.dropout", config_.embedding_dropout);
  }

  TensorId add_positions(TensorId x) {
    TensorId table =
        parameter("positions.weight", {config_.sequence, config_.hidden}, weights(), {});
    if (sequence_ < config_.sequence)
      table = op("slice", "positions.used", {table},
                 {{"dim", std::int64_t{0}}, {"start", std::int64_t{0}}, {"stop", sequence_}});
    return op("bias_add", "positions", {x, cast(table, "positions.cast")});
  }

  // The first row of the table for every token.
  TensorId add_token_type(TensorId x) {
    const TensorId table =
        parameter("token_types.weight", {config_.token_types, config_.hidden}, weights(), {});
    const TensorId row =
        op("slice", "token_types.used", {table},
           {{"dim", std::int64_t{0}}, {"start", std::int64_t{0}}, {"stop", std::int64_t{1}}});
    const TensorId first = reshape(row, "token_types.first", {config_.hidden});
    return op("bias_add", "token_types", {x, cast(first, "token_types.cast")});
  }

  TensorId add_block(TensorId x) {
    if (config_.post_norm) return add_post_norm_block(x);
    x = add_residual(x, add_attention(norm(x, name("attention.norm"))), name("attention"));
    const TensorId normed = norm(x, name("mlp.norm"));
    return add_residual(x, config_.experts > 0 ? add_experts(normed) : add_mlp(normed),
                        name("mlp"));
  }

  TensorId add_post_norm_block(TensorId x) {
    x = norm(add_residual(x, add_attention(x), name("attention")), name("attention.norm"));
    const TensorId added = config_.experts > 0 ? add_experts(x) : add_mlp(x);
    return norm(add_residual(x, added, name("mlp")), name("mlp.norm"));
  }

  TensorId add_residual(TensorId x, TensorId added, const std::string& prefix) {
    return op("add", prefix + ".residual",
              {x, dropped(added, prefix + ".dropout", config_.residual_dropout)});
  }

  TensorId dropped(TensorId x, const std::string& op_name, double rate) {
    return rate > 0 ? add_dropout(graph_, op_name, layer(), x, rate) : x;
  }

  TensorId add_attention(TensorId x) {
    const std::int64_t width = config_.heads * config_.head_size;
    const TensorId q = add_heads(x, "q", config_.heads);
    const TensorId k = add_heads(x, "k", config_.kv_heads);
    const TensorId v = add_heads(x, "v", config_.kv_heads);
    Attributes attributes{{"group", config_.heads / config_.kv_heads}};
    if (!config_.causal) attributes.set("causal", false);
    const TensorId o = op("attention", name("attention.core"), {q, k, v}, std::move(attributes));
    const TensorId flat = reshape(o, name("attention.flat"), {batch_, sequence_, width});
    return linear(flat, name("attention.o"), width, config_.hidden, Cut::kIn, config_.output_bias,
                  residual_weights());
  }

  // One of q, k, v as [batch, sequence, heads, head size], positions and norms applied.
  TensorId add_heads(TensorId x, const std::string& which, std::int64_t heads) {
    const std::string prefix = name("attention." + which);
    TensorId y = linear(x, prefix, config_.hidden, heads * config_.head_size, Cut::kOut,
                        config_.attention_bias, weights());
    y = reshape(y, prefix + ".heads", {batch_, sequence_, heads, config_.head_size});
    const bool is_value = which == "v";
    if (config_.qk_norm && !is_value) y = norm(y, prefix + ".norm");
    if (config_.positions == ModelConfig::Positions::kRotary && !is_value)
      y = op("rope", prefix + ".rope", {y}, rope_attributes());
    return y;
  }

  Attributes rope_attributes() const {
    Attributes attributes{{"theta", config_.rope_theta}};
    add_scaling(config_.rope_scaling, attributes);
    return attributes;
  }

  // [batch, sequence, hidden] -> the same, every token through its top_k of the experts.
  TensorId add_experts(TensorId x) {
    const Routing routing = add_routing(x);
    const std::int64_t places = places_per_expert(config_, sequence_);
    TensorId y = dispatch_tokens(graph_, x, routing, places, name("mlp.dispatch"), layer());
    y = reshape(y, name("mlp.dispatched"), {config_.experts, batch_ * places, config_.hidden});
    y = reshape(add_expert_mlps(y), name("mlp.computed"),
                {config_.experts, batch_, places, config_.hidden});
    return combine_tokens(graph_, y, routing, name("mlp.combine"), layer());
  }

  Routing add_routing(TensorId x) {
    TensorId scores = linear(x, name("mlp.router"), config_.hidden, config_.experts, Cut::kNone,
                             false, weights());
    const std::string softmax_name = name("mlp.router.weights");
    if (!config_.normalized_experts) scores = softmax(graph_, scores, -1, softmax_name, layer());
    Routing routing = route_top_k(graph_, scores, config_.top_k, name("mlp.router"), layer());
    // Of the chosen scores alone: what softmax of all gives once the chosen add up to 1.
    if (config_.normalized_experts)
      routing.weights = softmax(graph_, routing.weights, -1, softmax_name, layer());
    return routing;
  }

  void add_head(TensorId x, TensorId labels) {
    if (!config_.post_norm) x = norm(x, "final.norm");
    if (config_.head_transform) x = transform(x);
    const TensorId table =
        config_.tied_embeddings
            ? table_
            : parameter("head.weight", {config_.vocab, config_.hidden}, weights(), 0);
    TensorId logits =
        op("matmul", "head", {x, cast(table, "head.weight.cast")}, {{"transpose_w", true}});
    if (config_.head_bias)
      logits = op("bias_add", "head.biased",
                  {logits, used(parameter("head.bias", {config_.vocab}, zeros(), 0))});
    const LossTensors loss = softmax_cross_entropy(graph_, logits, labels, "loss", layer(),
                                                   kIgnoreIndex, config_.label_smoothing);
    graph_.set_loss(loss.loss_sum, loss.token_count);
  }

  // Of an encoder's states, before they meet the vocabulary.
  TensorId transform(TensorId x) {
    x = linear(x, "transform", config_.hidden, config_.hidden, Cut::kNone, true, weights());
    return norm(gelu(x, "transform.gelu"), "transform.norm");
  }

  std::int64_t batch_, sequence_;
  TensorId table_;
};

}  // namespace

LogicalGraph build_graph(const ModelConfig& config, std::int64_t batch, std::int64_t sequence,
                         DType dtype) {
  validate(config);
  require_buildable(batch, dtype);
  require(sequence >= 1, ErrorCode::kUsage, "a sequence of {} tokens, wanted 1 or more", sequence);
  require(config.positions != ModelConfig::Positions::kLearned || sequence <= config.sequence,
          ErrorCode::kUsage, "a sequence of {} tokens, but {} has learned positions for {}",
          sequence, config.name, config.sequence);
  return TransformerBuilder(config, batch, sequence, dtype).build();
}

}  // namespace sextant
