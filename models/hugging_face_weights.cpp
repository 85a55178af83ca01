// One table of names per family.
#include "models/hugging_face_weights.h"

#include "core/base/check.h"
#include "core/text/json_text.h"

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

enum class Family : std::uint8_t { kBert, kGpt2, kLlama, kQwen2, kQwen3, kMixtral, kQwen3Moe };

bool is_llama_like(const ModelConfig& config) {
  return config.causal && config.norm == ModelConfig::Norm::kRmsNorm &&
         config.mlp == ModelConfig::Mlp::kSwiGlu &&
         config.positions == ModelConfig::Positions::kRotary;
}

bool has_encoder_parts(const ModelConfig& config) {
  return config.post_norm || config.embedding_norm || config.head_transform || config.head_bias ||
         config.token_types > 0;
}

bool has_gpt2_parts(const ModelConfig& config) {
  return config.norm == ModelConfig::Norm::kLayerNorm && config.mlp == ModelConfig::Mlp::kGelu &&
         config.positions == ModelConfig::Positions::kLearned && config.attention_bias &&
         config.output_bias && config.mlp_bias && !config.qk_norm && config.experts == 0 &&
         config.kv_heads == config.heads && config.heads * config.head_size == config.hidden;
}

// By what each of them can have: qwen2 has biases of q, k and v alone, llama and qwen3 all of
// attention's or none, mixtral none and weights of experts that add up to 1.
std::optional<Family> llama_family_of(const ModelConfig& c) {
  const bool has_even_biases = c.attention_bias == c.output_bias;
  if (c.experts > 0) {
    if (c.mlp_bias) return std::nullopt;
    if (c.qk_norm) return has_even_biases ? std::optional(Family::kQwen3Moe) : std::nullopt;
    const bool is_mixtral = !c.attention_bias && !c.output_bias && c.normalized_experts;
    return is_mixtral ? std::optional(Family::kMixtral) : std::nullopt;
  }
  if (c.qk_norm)
    return has_even_biases && !c.mlp_bias ? std::optional(Family::kQwen3) : std::nullopt;
  if (has_even_biases) return Family::kLlama;
  return c.attention_bias && !c.mlp_bias ? std::optional(Family::kQwen2) : std::nullopt;
}

Family family_of(const ModelConfig& config) {
  const bool is_encoder = !config.causal && config.post_norm && config.embedding_norm &&
                          config.head_transform && config.head_bias && config.token_types > 0;
  if (is_encoder && has_gpt2_parts(config)) return Family::kBert;
  if (config.causal && !has_encoder_parts(config)) {
    if (has_gpt2_parts(config)) return Family::kGpt2;
    if (is_llama_like(config))
      if (const auto family = llama_family_of(config)) return *family;
  }
  fail(ErrorCode::kBadInput,
       "{}: no family of Hugging Face computes what this model does, so its weights have no names "
       "there",
       config.name);
}

// Lists tensors with the layout of their files.
class Names {
 public:
  explicit Names(const ModelConfig& config) : config_(config) {}

  ForeignModel take() { return std::move(model_); }
  void ignore(std::string ending) { model_.ignored.push_back(std::move(ending)); }

  ForeignTensor& as_is(std::string own, std::vector<std::string> names, const Shape& shape) {
    return model_.tensors.emplace_back(
        ForeignTensor{.own = std::move(own), .names = std::move(names), .shape = shape});
  }
  // `own`.weight [in, out] of their [out, in], and the bias.
  void linear(const std::string& own, const std::string& theirs, std::int64_t in, std::int64_t out,
              bool has_bias) {
    as_is(own + ".weight", {theirs + ".weight"}, {out, in}).is_transposed = true;
    if (has_bias) as_is(own + ".bias", {theirs + ".bias"}, {out});
  }
  // As a one-dimensional convolution stores it: [in, out].
  void conv1d(const std::string& own, const std::string& theirs, std::int64_t in,
              std::int64_t out) {
    as_is(own + ".weight", {theirs + ".weight"}, {in, out});
    as_is(own + ".bias", {theirs + ".bias"}, {out});
  }
  // `part` of `parts` of equal width that one convolution makes.
  void fused(const std::string& own, const std::string& theirs, std::int64_t in, std::int64_t out,
             std::int64_t part, std::int64_t parts) {
    as_is(own + ".weight", {theirs + ".weight"}, {in, parts * out}).first_column = part * out;
    as_is(own + ".bias", {theirs + ".bias"}, {parts * out}).first_column = part * out;
  }
  void norm(const std::string& own, const std::string& theirs, std::int64_t size) {
    as_is(own + ".weight", {theirs + ".weight"}, {size});
    if (config_.norm == ModelConfig::Norm::kLayerNorm)
      as_is(own + ".bias", {theirs + ".bias"}, {size});
  }
  // Both with the names that TensorFlow gave them, which the first files still have.
  void old_norm(const std::string& own, const std::string& theirs) {
    as_is(own + ".weight", {theirs + ".weight", theirs + ".gamma"}, {config_.hidden});
    as_is(own + ".bias", {theirs + ".bias", theirs + ".beta"}, {config_.hidden});
  }

 private:
  const ModelConfig& config_;
  ForeignModel model_;
};

// Files of the bare model have no prefix.
void allow_without(std::string_view prefix, ForeignModel& model) {
  for (ForeignTensor& tensor : model.tensors) {
    std::vector<std::string> bare;
    for (const std::string& name : tensor.names)
      if (name.starts_with(prefix)) bare.push_back(name.substr(prefix.size()));
    tensor.names.insert(tensor.names.end(), bare.begin(), bare.end());
  }
}

ForeignModel gpt2_weights(const ModelConfig& c) {
  Names names(c);
  const std::int64_t h = c.hidden;
  names.as_is("embedding.weight", {"transformer.wte.weight"}, {c.vocab, h});
  names.as_is("positions.weight", {"transformer.wpe.weight"}, {c.sequence, h});
  for (std::int64_t layer = 1; layer <= c.layers; ++layer) {
    const std::string own = fmt::format("layer{}.", layer);
    const std::string theirs = fmt::format("transformer.h.{}.", layer - 1);
    names.norm(own + "attention.norm", theirs + "ln_1", h);
    std::int64_t part = 0;
    for (const char* const which : {"q", "k", "v"})
      names.fused(own + "attention." + which, theirs + "attn.c_attn", h, h, part++, 3);
    names.conv1d(own + "attention.o", theirs + "attn.c_proj", h, h);
    names.norm(own + "mlp.norm", theirs + "ln_2", h);
    names.conv1d(own + "mlp.up", theirs + "mlp.c_fc", h, c.ffn);
    names.conv1d(own + "mlp.down", theirs + "mlp.c_proj", c.ffn, h);
  }
  names.norm("final.norm", "transformer.ln_f", h);
  if (c.tied_embeddings)
    names.ignore("lm_head.weight");
  else
    names.as_is("head.weight", {"lm_head.weight"}, {c.vocab, h});
  for (const char* const mask : {".attn.bias", ".attn.masked_bias"}) names.ignore(mask);
  ForeignModel model = names.take();
  allow_without("transformer.", model);
  return model;
}

ForeignModel bert_weights(const ModelConfig& c) {
  Names names(c);
  const std::int64_t h = c.hidden;
  const std::string embeddings = "bert.embeddings.";
  names.as_is("embedding.weight", {embeddings + "word_embeddings.weight"}, {c.vocab, h});
  names.as_is("positions.weight", {embeddings + "position_embeddings.weight"}, {c.sequence, h});
  names.as_is("token_types.weight", {embeddings + "token_type_embeddings.weight"},
              {c.token_types, h});
  names.old_norm("embedding.norm", embeddings + "LayerNorm");
  for (std::int64_t layer = 1; layer <= c.layers; ++layer) {
    const std::string own = fmt::format("layer{}.", layer);
    const std::string theirs = fmt::format("bert.encoder.layer.{}.", layer - 1);
    names.linear(own + "attention.q", theirs + "attention.self.query", h, h, true);
    names.linear(own + "attention.k", theirs + "attention.self.key", h, h, true);
    names.linear(own + "attention.v", theirs + "attention.self.value", h, h, true);
    names.linear(own + "attention.o", theirs + "attention.output.dense", h, h, true);
    names.old_norm(own + "attention.norm", theirs + "attention.output.LayerNorm");
    names.linear(own + "mlp.up", theirs + "intermediate.dense", h, c.ffn, true);
    names.linear(own + "mlp.down", theirs + "output.dense", c.ffn, h, true);
    names.old_norm(own + "mlp.norm", theirs + "output.LayerNorm");
  }
  names.linear("transform", "cls.predictions.transform.dense", h, h, true);
  names.old_norm("transform.norm", "cls.predictions.transform.LayerNorm");
  names.as_is("head.bias", {"cls.predictions.bias", "cls.predictions.decoder.bias"}, {c.vocab});
  if (!c.tied_embeddings)
    names.as_is("head.weight", {"cls.predictions.decoder.weight"}, {c.vocab, h});
  for (const char* const other :
       {"embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias",
        "cls.seq_relationship.weight", "cls.seq_relationship.bias",
        "cls.predictions.decoder.weight", "cls.predictions.decoder.bias"})
    names.ignore(other);
  ForeignModel model = names.take();
  allow_without("bert.", model);
  return model;
}

void add_experts(Names& names, const ModelConfig& c, const std::string& own,
                 const std::string& theirs, Family family) {
  const bool is_mixtral = family == Family::kMixtral;
  const std::string block = theirs + (is_mixtral ? "block_sparse_moe." : "mlp.");
  names.linear(own + "mlp.router", block + "gate", c.hidden, c.experts, false);
  struct Part {
    const char *own, *mixtral, *qwen;
    std::int64_t in, out;
  };
  const Part parts[] = {{"gate", "w1", "gate_proj", c.hidden, c.ffn},
                        {"up", "w3", "up_proj", c.hidden, c.ffn},
                        {"down", "w2", "down_proj", c.ffn, c.hidden}};
  for (const Part& part : parts)
    for (std::int64_t expert = 0; expert < c.experts; ++expert) {
      ForeignTensor& tensor = names.as_is(fmt::format("{}mlp.experts.{}.weight", own, part.own),
                                          {fmt::format("{}experts.{}.{}.weight", block, expert,
                                                       is_mixtral ? part.mixtral : part.qwen)},
                                          {part.out, part.in});
      tensor.is_transposed = true;
      tensor.expert = expert;
    }
}

ForeignModel llama_weights(const ModelConfig& c, Family family) {
  Names names(c);
  const std::int64_t h = c.hidden, q = c.heads * c.head_size, kv = c.kv_heads * c.head_size;
  names.as_is("embedding.weight", {"model.embed_tokens.weight"}, {c.vocab, h});
  for (std::int64_t layer = 1; layer <= c.layers; ++layer) {
    const std::string own = fmt::format("layer{}.", layer);
    const std::string theirs = fmt::format("model.layers.{}.", layer - 1);
    const std::string attention = theirs + "self_attn.";
    names.norm(own + "attention.norm", theirs + "input_layernorm", h);
    names.linear(own + "attention.q", attention + "q_proj", h, q, c.attention_bias);
    names.linear(own + "attention.k", attention + "k_proj", h, kv, c.attention_bias);
    names.linear(own + "attention.v", attention + "v_proj", h, kv, c.attention_bias);
    names.linear(own + "attention.o", attention + "o_proj", q, h, c.output_bias);
    if (c.qk_norm) {
      names.norm(own + "attention.q.norm", attention + "q_norm", c.head_size);
      names.norm(own + "attention.k.norm", attention + "k_norm", c.head_size);
    }
    names.norm(own + "mlp.norm", theirs + "post_attention_layernorm", h);
    if (c.experts > 0) {
      add_experts(names, c, own, theirs, family);
      continue;
    }
    names.linear(own + "mlp.gate", theirs + "mlp.gate_proj", h, c.ffn, c.mlp_bias);
    names.linear(own + "mlp.up", theirs + "mlp.up_proj", h, c.ffn, c.mlp_bias);
    names.linear(own + "mlp.down", theirs + "mlp.down_proj", c.ffn, h, c.mlp_bias);
  }
  names.norm("final.norm", "model.norm", h);
  if (c.tied_embeddings)
    names.ignore("lm_head.weight");
  else
    names.as_is("head.weight", {"lm_head.weight"}, {c.vocab, h});
  names.ignore(".rotary_emb.inv_freq");
  return names.take();
}

Json bert_config(const ModelConfig& c) {
  return {{"architectures", {"BertForMaskedLM"}},
          {"model_type", "bert"},
          {"num_hidden_layers", c.layers},
          {"hidden_size", c.hidden},
          {"num_attention_heads", c.heads},
          {"intermediate_size", c.ffn},
          {"vocab_size", c.vocab},
          {"max_position_embeddings", c.sequence},
          {"type_vocab_size", c.token_types},
          {"mask_token_id", c.mask_id},
          {"layer_norm_eps", c.norm_epsilon},
          {"hidden_act", c.exact_gelu ? "gelu" : "gelu_new"},
          {"hidden_dropout_prob", c.residual_dropout},
          {"attention_probs_dropout_prob", 0.0}};
}

Json gpt2_config(const ModelConfig& c) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_layer", c.layers},
          {"n_embd", c.hidden},
          {"n_head", c.heads},
          {"n_inner", c.ffn},
          {"vocab_size", c.vocab},
          {"n_positions", c.sequence},
          {"layer_norm_epsilon", c.norm_epsilon},
          {"activation_function", c.exact_gelu ? "gelu" : "gelu_new"},
          {"resid_pdrop", c.residual_dropout},
          {"embd_pdrop", c.embedding_dropout},
          {"attn_pdrop", 0.0}};
}

std::pair<const char*, const char*> llama_names(Family family) {
  switch (family) {
    case Family::kQwen2:
      return {"qwen2", "Qwen2ForCausalLM"};
    case Family::kQwen3:
      return {"qwen3", "Qwen3ForCausalLM"};
    case Family::kMixtral:
      return {"mixtral", "MixtralForCausalLM"};
    case Family::kQwen3Moe:
      return {"qwen3_moe", "Qwen3MoeForCausalLM"};
    default:
      return {"llama", "LlamaForCausalLM"};
  }
}

// As transformers has it in "rope_scaling"; null where positions are not scaled.
Json scaling_config(const RotaryScaling& scaling) {
  if (scaling.is_none()) return nullptr;
  if (scaling.original_length == 0) return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_turns},
          {"high_freq_factor", scaling.high_turns},
          {"original_max_position_embeddings", scaling.original_length}};
}

Json llama_config(const ModelConfig& c, Family family) {
  const auto [type, architecture] = llama_names(family);
  Json json = {{"architectures", {architecture}},
               {"model_type", type},
               {"num_hidden_layers", c.layers},
               {"hidden_size", c.hidden},
               {"num_attention_heads", c.heads},
               {"num_key_value_heads", c.kv_heads},
               {"head_dim", c.head_size},
               {"vocab_size", c.vocab},
               {"max_position_embeddings", c.sequence},
               {"rms_norm_eps", c.norm_epsilon},
               {"rope_theta", c.rope_theta},
               {"rope_scaling", scaling_config(c.rope_scaling)},
               {"hidden_act", "silu"},
               {"attention_dropout", 0.0}};
  json[family == Family::kQwen3Moe ? "moe_intermediate_size" : "intermediate_size"] = c.ffn;
  if (family == Family::kLlama) {
    json["attention_bias"] = c.attention_bias;
    json["mlp_bias"] = c.mlp_bias;
  }
  if (family == Family::kQwen3 || family == Family::kQwen3Moe)
    json["attention_bias"] = c.attention_bias;
  if (c.experts == 0) return json;
  json[family == Family::kMixtral ? "num_local_experts" : "num_experts"] = c.experts;
  json["num_experts_per_tok"] = c.top_k;
  if (family == Family::kMixtral)
    json["sliding_window"] = nullptr;
  else
    json["norm_topk_prob"] = c.normalized_experts;
  return json;
}

}  // namespace

ForeignModel hugging_face_weights(const ModelConfig& config) {
  const Family family = family_of(config);
  if (family == Family::kBert) return bert_weights(config);
  if (family == Family::kGpt2) return gpt2_weights(config);
  return llama_weights(config, family);
}

std::string hugging_face_config(const ModelConfig& config, DType dtype) {
  const Family family = family_of(config);
  Json json = family == Family::kBert   ? bert_config(config)
              : family == Family::kGpt2 ? gpt2_config(config)
                                        : llama_config(config, family);
  json["initializer_range"] = config.initializer_range;
  json["tie_word_embeddings"] = config.tied_embeddings;
  json["torch_dtype"] = dtype == DType::kBF16  ? "bfloat16"
                        : dtype == DType::kF16 ? "float16"
                                               : "float32";
  return to_readable_text(json, 40);
}

}  // namespace sextant
