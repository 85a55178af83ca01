// Our own JSON of a model config: every value written out, so that it means the same tomorrow.
#include "core/base/check.h"
#include "core/text/json_text.h"
#include "models/importers.h"

#include <nlohmann/json.hpp>

namespace sextant {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "sextant.model/1";

std::string_view to_string(ModelConfig::Norm norm) {
  return norm == ModelConfig::Norm::kLayerNorm ? "layer_norm" : "rms_norm";
}
std::string_view to_string(ModelConfig::Mlp mlp) {
  return mlp == ModelConfig::Mlp::kGelu ? "gelu" : "swiglu";
}
std::string_view to_string(ModelConfig::Positions positions) {
  return positions == ModelConfig::Positions::kLearned ? "learned" : "rotary";
}

template <typename Enum>
Enum read_choice(const JsonCursor& cursor, Enum first, Enum second) {
  if (cursor.text() == to_string(first)) return first;
  if (cursor.text() == to_string(second)) return second;
  cursor.refuse(fmt::format("found \"{}\", wanted {} or {}", cursor.text(), to_string(first),
                            to_string(second)));
}

constexpr std::int64_t kMost = std::int64_t{1} << 30;

std::int64_t read_size(const JsonCursor& root, std::string_view key) {
  return root.at(key).integer_between(1, kMost);
}

Json capacity_json(const ModelConfig& config) {
  return config.capacity_factor ? Json(*config.capacity_factor) : Json();
}

double real_or_zero(const JsonCursor& root, std::string_view key) {
  const auto found = root.find(key);
  return found ? found->real() : 0.0;
}

Json scaling_json(const RotaryScaling& scaling) {
  if (scaling.original_length == 0) return {{"factor", scaling.factor}};
  return {{"factor", scaling.factor},
          {"low_turns", scaling.low_turns},
          {"high_turns", scaling.high_turns},
          {"original_length", scaling.original_length}};
}

RotaryScaling read_scaling(const JsonCursor& scaling) {
  scaling.allow_only({"factor", "low_turns", "high_turns", "original_length"});
  RotaryScaling read{.factor = scaling.at("factor").real()};
  if (scaling.keys().size() == 1) return read;
  read.original_length = scaling.at("original_length").integer_between(1, kMost);
  read.low_turns = scaling.at("low_turns").real();
  read.high_turns = scaling.at("high_turns").real();
  return read;
}

void read_encoder_keys(const JsonCursor& root, ModelConfig& config) {
  const auto read = [&](std::string_view key, bool& value) {
    if (const auto found = root.find(key)) value = found->boolean();
  };
  read("causal", config.causal);
  read("post_norm", config.post_norm);
  read("embedding_norm", config.embedding_norm);
  read("head_transform", config.head_transform);
  read("head_bias", config.head_bias);
  if (const auto types = root.find("token_types"))
    config.token_types = types->integer_between(0, kMost);
  if (const auto mask = root.find("mask_id")) config.mask_id = mask->integer_between(0, kMost);
}

// Keys that came later: files without them mean what they meant.
void read_later_keys(const JsonCursor& root, ModelConfig& config) {
  if (const auto experts = root.find("experts"))
    config.experts = experts->integer_between(0, kMost);
  if (const auto top_k = root.find("top_k")) config.top_k = top_k->integer_between(0, kMost);
  if (const auto factor = root.find_value("capacity_factor"))
    config.capacity_factor = factor->real();
  if (const auto normalized = root.find("normalized_experts"))
    config.normalized_experts = normalized->boolean();
  if (const auto scaling = root.find_value("rope_scaling"))
    config.rope_scaling = read_scaling(*scaling);
  read_encoder_keys(root, config);
  config.residual_dropout = real_or_zero(root, "residual_dropout");
  config.embedding_dropout = real_or_zero(root, "embedding_dropout");
  config.label_smoothing = real_or_zero(root, "label_smoothing");
}

}  // namespace

std::string to_json_text(const ModelConfig& config) {
  Json json{{"schema", kSchema},
            {"name", config.name},
            {"layers", config.layers},
            {"hidden", config.hidden},
            {"heads", config.heads},
            {"kv_heads", config.kv_heads},
            {"head_size", config.head_size},
            {"ffn", config.ffn},
            {"vocab", config.vocab},
            {"sequence", config.sequence},
            {"norm", to_string(config.norm)},
            {"mlp", to_string(config.mlp)},
            {"positions", to_string(config.positions)},
            {"attention_bias", config.attention_bias},
            {"output_bias", config.output_bias},
            {"mlp_bias", config.mlp_bias},
            {"qk_norm", config.qk_norm},
            {"tied_embeddings", config.tied_embeddings},
            {"exact_gelu", config.exact_gelu},
            {"causal", config.causal},
            {"post_norm", config.post_norm},
            {"embedding_norm", config.embedding_norm},
            {"head_transform", config.head_transform},
            {"head_bias", config.head_bias},
            {"token_types", config.token_types},
            {"mask_id", config.mask_id},
            {"norm_epsilon", config.norm_epsilon},
            {"rope_theta", config.rope_theta},
            {"initializer_range", config.initializer_range},
            {"experts", config.experts},
            {"top_k", config.top_k},
            {"capacity_factor", capacity_json(config)},
            {"normalized_experts", config.normalized_experts},
            {"residual_dropout", config.residual_dropout},
            {"embedding_dropout", config.embedding_dropout},
            {"label_smoothing", config.label_smoothing}};
  // Left out where nothing is scaled: hashes of models that were there before it stay.
  if (!config.rope_scaling.is_none()) json["rope_scaling"] = scaling_json(config.rope_scaling);
  return to_readable_text(json, 40);
}

ModelConfig model_config_from_json(std::string_view text, std::string_view origin) {
  const JsonDocument document(text, std::string(origin));
  return importers::from_sextant_config(document.root());
}

namespace importers {

bool is_sextant_config(const JsonCursor& root) {
  const auto schema = root.find("schema");
  return schema && schema->is_text() && schema->text().starts_with("sextant.model/");
}

ModelConfig from_sextant_config(const JsonCursor& root) {
  root.allow_only({"schema",
                   "name",
                   "layers",
                   "hidden",
                   "heads",
                   "kv_heads",
                   "head_size",
                   "ffn",
                   "vocab",
                   "sequence",
                   "norm",
                   "mlp",
                   "positions",
                   "attention_bias",
                   "output_bias",
                   "mlp_bias",
                   "qk_norm",
                   "tied_embeddings",
                   "exact_gelu",
                   "causal",
                   "post_norm",
                   "embedding_norm",
                   "head_transform",
                   "head_bias",
                   "token_types",
                   "mask_id",
                   "norm_epsilon",
                   "rope_theta",
                   "rope_scaling",
                   "initializer_range",
                   "experts",
                   "top_k",
                   "capacity_factor",
                   "normalized_experts",
                   "residual_dropout",
                   "embedding_dropout",
                   "label_smoothing"});
  if (root.at("schema").text() != kSchema)
    root.at("schema").refuse(
        fmt::format("found \"{}\"; this program reads {}", root.at("schema").text(), kSchema));
  ModelConfig config;
  config.name = root.at("name").text();
  config.layers = read_size(root, "layers");
  config.hidden = read_size(root, "hidden");
  config.heads = read_size(root, "heads");
  config.kv_heads = read_size(root, "kv_heads");
  config.head_size = read_size(root, "head_size");
  config.ffn = read_size(root, "ffn");
  config.vocab = read_size(root, "vocab");
  config.sequence = read_size(root, "sequence");
  config.norm =
      read_choice(root.at("norm"), ModelConfig::Norm::kLayerNorm, ModelConfig::Norm::kRmsNorm);
  config.mlp = read_choice(root.at("mlp"), ModelConfig::Mlp::kGelu, ModelConfig::Mlp::kSwiGlu);
  config.positions = read_choice(root.at("positions"), ModelConfig::Positions::kLearned,
                                 ModelConfig::Positions::kRotary);
  config.attention_bias = root.at("attention_bias").boolean();
  config.output_bias = root.at("output_bias").boolean();
  config.mlp_bias = root.at("mlp_bias").boolean();
  config.qk_norm = root.at("qk_norm").boolean();
  config.tied_embeddings = root.at("tied_embeddings").boolean();
  config.exact_gelu = root.at("exact_gelu").boolean();
  config.norm_epsilon = root.at("norm_epsilon").real();
  config.rope_theta = root.at("rope_theta").real();
  config.initializer_range = root.at("initializer_range").real();
  read_later_keys(root, config);
  validate(config);
  return config;
}

}  // namespace importers
}  // namespace sextant
