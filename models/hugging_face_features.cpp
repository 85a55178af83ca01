// Families and features of config.json files that are refused, each with its reason.
#include "models/hugging_face_features.h"

#include "core/base/check.h"
#include "core/base/nearest.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace sextant::importers {
namespace {

// Values of `model_type` and what stands between them and us; nothing: supported.
struct KnownFamily {
  std::string_view name;
  std::string_view reason;
};
constexpr std::array<KnownFamily, 34> kKnownFamilies = {{
    {"gpt2", ""},
    {"llama", ""},
    {"mistral", ""},
    {"qwen2", ""},
    {"qwen3", ""},
    {"mixtral", ""},
    {"qwen2_moe", "experts shared by all tokens"},
    {"qwen3_moe", ""},
    {"glm4_moe", "mixture of experts, partial rotary positions"},
    {"gpt_oss", "mixture of experts, sliding windows"},
    {"llama4", "mixture of experts"},
    {"deepseek_v2", "latent attention, mixture of experts"},
    {"deepseek_v3", "latent attention, mixture of experts"},
    {"kimi_k2", "latent attention, mixture of experts"},
    {"qwen3_next", "linear attention, mixture of experts"},
    {"mamba", "state-space layers"},
    {"mamba2", "state-space layers"},
    {"rwkv", "linear attention"},
    {"phi", "parallel attention, partial rotary positions, a bias on the head"},
    {"phi3", "fused projections"},
    {"gpt_neox", "parallel attention, partial rotary positions"},
    {"gptj", "parallel attention, partial rotary positions"},
    {"gpt_bigcode", "multi-query attention with fused projections"},
    {"falcon", "parallel attention"},
    {"bloom", "ALiBi positions"},
    {"mpt", "ALiBi positions"},
    {"opt", "ReLU and shifted positions"},
    {"gemma", "scaled embeddings and shifted norms"},
    {"gemma2", "scaled embeddings, soft caps, sliding windows"},
    {"bert", ""},
    {"roberta", "shifted positions of an encoder"},
    {"distilbert", "an encoder without token types"},
    {"t5", "an encoder-decoder"},
    {"bart", "an encoder-decoder"},
}};

struct KnownArchitecture {
  std::string_view name, family;
};
constexpr std::array<KnownArchitecture, 19> kArchitectures = {{
    {"GPT2LMHeadModel", "gpt2"},
    {"LlamaForCausalLM", "llama"},
    {"LLaMAForCausalLM", "llama"},  // of the first conversions
    {"MistralForCausalLM", "mistral"},
    {"Qwen2ForCausalLM", "qwen2"},
    {"Qwen3ForCausalLM", "qwen3"},
    {"MixtralForCausalLM", "mixtral"},
    {"Qwen2MoeForCausalLM", "qwen2_moe"},
    {"Qwen3MoeForCausalLM", "qwen3_moe"},
    {"Qwen3NextForCausalLM", "qwen3_next"},
    {"Glm4MoeForCausalLM", "glm4_moe"},
    {"DeepseekV2ForCausalLM", "deepseek_v2"},
    {"DeepseekV3ForCausalLM", "deepseek_v3"},
    {"PhiForCausalLM", "phi"},
    {"Phi3ForCausalLM", "phi3"},
    {"BertForMaskedLM", "bert"},
    {"BertForPreTraining", "bert"},
    {"BloomForCausalLM", "bloom"},
    {"OPTForCausalLM", "opt"},
}};

constexpr std::string_view kExperts = "mixture of experts";
bool is_expert_family(std::string_view family) {
  return family == "mixtral" || family == "qwen3_moe";
}

constexpr std::string_view kTokenTypes = "type_vocab_size";

// A key that changes the model when it is set to anything but null, false, 0, "" or an empty list.
struct Feature {
  std::string_view key, meaning;
};
constexpr std::array<Feature, 27> kFeatures = {{
    {"num_local_experts", kExperts},
    {"num_experts", kExperts},
    {"n_routed_experts", kExperts},
    {"moe_intermediate_size", kExperts},
    {"kv_lora_rank", "latent attention"},
    {"q_lora_rank", "latent attention"},
    {"linear_num_key_heads", "linear attention"},
    {"linear_conv_kernel_dim", "linear attention"},
    {"num_nextn_predict_layers", "prediction of several tokens"},
    {"quantization_config", "quantised weights"},
    {"compression_config", "quantised weights"},
    {"use_sliding_window", "sliding windows"},
    {"qk_layernorm", "normalised queries and keys"},
    {"is_encoder_decoder", "an encoder-decoder"},
    {"add_cross_attention", "cross attention"},
    {kTokenTypes, "token types of an encoder"},
    {"multi_query", "multi-query attention with fused projections"},
    {"parallel_attn", "parallel attention"},
    {"alibi", "ALiBi positions"},
    {"scale_attn_by_inverse_layer_idx", "attention scaled by layer"},
    {"attn_logit_softcapping", "soft caps on scores"},
    {"final_logit_softcapping", "soft caps on logits"},
    {"vision_config", "several modalities"},
    {"audio_config", "several modalities"},
    {"text_config", "several modalities"},
    {"embedding_multiplier", "scaled embeddings"},
    {"residual_multiplier", "scaled residuals"},
}};

constexpr std::array<std::string_view, 54> kHarmlessKeys = {
    "_name_or_path",
    "auto_map",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "decoder_start_token_id",
    "directionality",
    "dtype",
    "embedding_size_per_head",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "id2label",
    "keys_to_ignore_at_inference",
    "label2id",
    "max_length",
    "max_window_layers",
    "mlp_only_layers",
    "n_special",
    "num_labels",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "pad_token_id",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "predict_special_tokens",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "reorder_and_upcast_attn",
    "return_dict",
    "router_aux_loss_coef",
    "selective_checkpoint_enabled",
    "sep_token_id",
    "sequence_parallel_enabled",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "unk_token_id",
    "use_cache",
    "use_flash_attention",
};

bool is_set(const JsonCursor& value) {
  if (value.is_null()) return false;
  if (value.is_boolean()) return value.boolean();
  if (value.is_number()) return value.real() != 0;
  if (value.is_text()) return !value.text().empty();
  if (value.is_list()) return !value.elements().empty();
  return true;
}

std::string text_of(const JsonCursor& value) {
  if (value.is_boolean()) return value.boolean() ? "true" : "false";
  if (value.is_number()) return fmt::format("{}", value.real());
  return value.is_text() ? "\"" + value.text() + "\"" : "...";
}

// Files that lie beside a config.json and are taken for it.
std::optional<std::string> other_kind_of_file(const JsonCursor& root) {
  if (root.contains("peft_type")) {
    const auto base = root.find_value("base_model_name_or_path");
    return "the config of an adapter (peft_type), not of a model" +
           (base && base->is_text() ? "; its base model is " + base->text() : "");
  }
  if (root.contains("added_tokens")) return "a tokenizer, not the config of a model";
  if (root.contains("weight_map")) return "an index of weight files, not the config of a model";
  if (root.contains("strategy") && root.contains("model_text"))
    return "a plan, which holds its model: simulate, explain, check, run and export take it";
  if (root.contains("devices_per_node")) return "a cluster, not a model: give it with -c";
  if (root.contains("traceEvents")) return "a trace, not a model";
  return std::nullopt;
}

std::optional<std::string> family_of_architectures(const JsonCursor& root,
                                                   std::vector<std::string>& reasons) {
  const auto architectures = root.find_value("architectures");
  if (!architectures) return std::nullopt;
  std::optional<std::string> family;
  for (const JsonCursor& architecture : architectures->elements()) {
    const std::string& name = architecture.text();
    const auto known = std::find_if(kArchitectures.begin(), kArchitectures.end(),
                                    [&](const KnownArchitecture& one) { return one.name == name; });
    if (known != kArchitectures.end()) {
      family = known->family;
    } else {
      reasons.push_back("the architecture " + name + " is not supported");
    }
  }
  return family;
}

std::string families_text() {
  std::vector<std::string> names;
  for (const KnownFamily& family : kKnownFamilies)
    if (family.reason.empty()) names.emplace_back(family.name);
  return comma_list(names);
}

void check_family(const std::string& name, std::vector<std::string>& reasons) {
  const auto known = std::find_if(kKnownFamilies.begin(), kKnownFamilies.end(),
                                  [&](const KnownFamily& family) { return family.name == name; });
  if (known == kKnownFamilies.end()) {
    reasons.push_back("the family '" + name + "' is not known");
  } else if (!known->reason.empty()) {
    reasons.push_back(fmt::format("the family '{}' is not supported ({})", name, known->reason));
  }
}

// Some layers of these families may be dense, in which case an MLP would differ from layer to
// layer.
void check_every_layer_has_experts(const JsonCursor& root, const std::string& family,
                                   std::vector<std::string>& reasons) {
  if (!is_expert_family(family)) return;
  for (const std::string_view key : {"decoder_sparse_step", "moe_frequency"}) {
    const auto step = root.find_value(key);
    if (step && step->real() != 1)
      reasons.push_back(fmt::format("layers without experts ({} = {})", key, text_of(*step)));
  }
  const auto dense = root.find("mlp_only_layers");
  if (dense && is_set(*dense)) reasons.push_back("layers without experts (mlp_only_layers)");
}

void check_features(const JsonCursor& root, const std::string& family,
                    std::vector<std::string>& reasons) {
  std::string_view named;  // keys of equal meaning are neighbours: the first is enough
  for (const Feature& feature : kFeatures) {
    const auto value = root.find(feature.key);
    if (!value || !is_set(*value) || feature.meaning == named) continue;
    if (feature.meaning == kExperts && is_expert_family(family)) continue;
    if (feature.key == kTokenTypes && family == "bert") continue;
    reasons.push_back(fmt::format("{} ({} = {})", feature.meaning, feature.key, text_of(*value)));
    named = feature.meaning;
  }
  check_every_layer_has_experts(root, family, reasons);
  const auto rotary = root.find_value("partial_rotary_factor");
  if (rotary && rotary->real() != 1)
    reasons.push_back(
        fmt::format("partial rotary positions (partial_rotary_factor = {})", rotary->real()));
  const auto qk_norm = root.find_value("use_qk_norm");
  if (!family.starts_with("qwen3") && qk_norm && is_set(*qk_norm))
    reasons.push_back("normalised queries and keys (use_qk_norm = true)");
  const auto window = root.find("sliding_window");
  if ((family == "mistral" || family == "mixtral") && window && is_set(*window))
    reasons.push_back("sliding windows (sliding_window = " + text_of(*window) + ")");
  if (family == "mistral" && !window)
    reasons.push_back(
        "sliding windows (sliding_window is missing, and the family's is 4096; null means none)");
  const auto layer_types = root.find_value("layer_types");
  if (!layer_types) return;
  for (const JsonCursor& type : layer_types->elements()) {
    if (type.text() == "full_attention") continue;
    reasons.push_back("layers of type " + type.text() + " (layer_types)");
    break;
  }
}

bool has_gpt2_keys(const JsonCursor& root) {
  for (const std::string_view key : {"n_embd", "n_head", "n_layer", "vocab_size"})
    if (!root.contains(key)) return false;
  return true;
}

}  // namespace

std::string supported_family(const JsonCursor& root) {
  if (const auto kind = other_kind_of_file(root)) root.refuse("this is " + *kind);
  std::vector<std::string> reasons;
  const std::optional<std::string> by_architecture = family_of_architectures(root, reasons);
  const auto model_type = root.find_value("model_type");
  std::string family = model_type ? model_type->text() : by_architecture.value_or("");
  if (family.empty() && reasons.empty()) {
    if (!has_gpt2_keys(root))
      root.refuse("neither model_type nor architectures: not a config.json of Hugging Face");
    family = "gpt2";
  }
  if (by_architecture && *by_architecture != family)
    reasons.push_back(
        fmt::format("architectures say {}, model_type says {}", *by_architecture, family));
  if (!family.empty()) check_family(family, reasons);
  check_features(root, family, reasons);
  if (reasons.empty()) return family;
  std::string all;
  for (const std::string& reason : reasons) all += (all.empty() ? "" : "; ") + reason;
  throw Error(ErrorCode::kBadInput, root.place() + ": not supported: " + all,
              {"supported families: " + families_text()});
}

bool is_harmless_key(std::string_view key) {
  return std::find(kHarmlessKeys.begin(), kHarmlessKeys.end(), key) != kHarmlessKeys.end();
}

}  // namespace sextant::importers
