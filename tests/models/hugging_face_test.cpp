// config.json of Hugging Face: what is read, what is noted, what is refused, and the files that
// users have.
#include "core/base/error.h"
#include "core/text/json_reader.h"
#include "models/importers.h"
#include "models/model.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace sextant::hugging_face_test {
namespace {

ModelConfig read(std::string_view text) {
  const JsonDocument document(text, "config.json");
  return importers::from_hugging_face(document.root(), "test");
}

std::string refusal(std::string_view text) {
  try {
    read(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// A Llama-like config with further keys; 4 heads of 16.
std::string llama(const std::string& more, const std::string& type = "llama") {
  return R"({"model_type": ")" + type + R"(", "num_hidden_layers": 2, "hidden_size": 64,
      "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
      "max_position_embeddings": 32)" +
         (more.empty() ? "" : ", ") + more + "}";
}

TEST_CASE("a llama config gives its sizes, and its heads when none are left out") {
  const ModelConfig config = read(llama(""));
  CHECK(config.kv_heads == 4);
  CHECK(config.head_size == 16);
  CHECK_FALSE(config.tied_embeddings);
  // Per layer 4 * 64^2 (q, k, v, o) + 3 * 64 * 96 + 2 * 64; then 64, and 2 * 100 * 64.
  CHECK(count_parameters(config) == 2 * (4 * 64 * 64 + 3 * 64 * 96 + 128) + 64 + 12'800);
}

TEST_CASE("G36: a head size that is given counts, not hidden / heads") {
  const ModelConfig config = read(
      R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 2560,
          "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
          "intermediate_size": 1, "vocab_size": 1, "max_position_embeddings": 1})");
  CHECK(config.head_size == 128);
  // q 2560 * 4096 = 10485760, k and v 2560 * 1024 = 2621440 each, o 4096 * 2560; 3 * 2560 for the
  // unit MLP, norms 3 * 2560, embedding and head 2 * 2560.
  CHECK(count_parameters(config) == 10'485'760 + 2 * 2'621'440 + 10'485'760 + 8 * 2560);
}

TEST_CASE("G64: rotary scaling is accepted and changes no count") {
  const ModelConfig config = read(llama(
      R"("rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192, "rope_type": "llama3"})"));
  CHECK(count_parameters(config) == count_parameters(read(llama(""))));
  CHECK(config.notes.empty());
  CHECK(config.rope_scaling ==
        RotaryScaling{.factor = 8, .low_turns = 1, .high_turns = 4, .original_length = 8192});
  CHECK(model_config_from_json(to_json_text(config)).rope_scaling == config.rope_scaling);
  CHECK(contains(to_json_text(config), "original_length"));
  CHECK(!contains(to_json_text(read(llama(""))), "rope_scaling"));
  CHECK(contains(refusal(llama(R"("original_max_position_embeddings": 4096,
         "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
         "original_max_position_embeddings": 8192, "rope_type": "llama3"})")),
                 "found 4096, but rope_scaling.original_max_position_embeddings is 8192"));
  const ModelConfig linear = read(llama(R"("rope_scaling": {"type": "linear", "factor": 4})"));
  CHECK(linear.rope_scaling == RotaryScaling{.factor = 4});
  CHECK(model_config_from_json(to_json_text(linear)).rope_scaling == linear.rope_scaling);
  const ModelConfig unscaled = read(llama(R"("rope_scaling": {"type": "yarn", "factor": 4})"));
  REQUIRE(unscaled.notes.size() == 1);
  CHECK(contains(unscaled.notes[0], "rope_scaling yarn: positions are built unscaled"));
  CHECK(contains(refusal(llama(R"("rope_scaling": {"type": "su"})")),
                 "rope_scaling.type: rotary scaling \"su\" is not supported"));
}

TEST_CASE("a rotary scaling that has no effect here is checked as one that has") {
  const auto scaled = [](const std::string& keys) {
    return llama("\"rope_scaling\": {" + keys + "}");
  };
  for (const char* const type : {"linear", "dynamic", "yarn"})
    CHECK(contains(refusal(scaled(fmt::format(R"("type": "{}")", type))),
                   "rope_scaling: the key 'factor' is missing"));
  for (const auto& [factor, found] : std::vector<std::pair<std::string, std::string>>{
           {R"("8.0")", "found \"8.0\", wanted a number"},
           {"0", "found 0, wanted 1 or more"},
           {"-1", "found -1, wanted 1 or more"},
           {"null", "found null, wanted a number"}})
    CHECK(contains(refusal(scaled(R"("type": "linear", "factor": )" + factor)),
                   "rope_scaling.factor: " + found));
  CHECK(contains(refusal(scaled(R"("rope_type": "llama3", "factor": 8, "low_freq_factor": 4,
                                   "high_freq_factor": 1,
                                   "original_max_position_embeddings": 8192)")),
                 "high_freq_factor must be above low_freq_factor"));
  CHECK(contains(refusal(scaled(R"("type": "yarn", "factor": 2, "beta_fast": 0)")),
                 "rope_scaling.beta_fast: found 0, wanted a number above 0"));
  CHECK(contains(refusal(scaled(R"("type": "linear", "rope_type": "yarn", "factor": 2)")),
                 "rope_scaling.type: found \"linear\", but rope_type is \"yarn\""));
  CHECK(contains(refusal(scaled(R"("type": "default", "partial_rotary_factor": 0.5)")),
                 "partial rotary positions are not supported"));
  const ModelConfig config = read(scaled(R"("type": "yarn", "factor": 2.5, "faktor": 3)"));
  CHECK(contains(config.notes.back(), "unknown keys of rope_scaling yarn, ignored: faktor"));
}

TEST_CASE("a base of rotary positions that is given twice is one number") {
  const auto twice = [](const char* second) {
    return llama(fmt::format(
        R"("rope_theta": 10000.0, "rope_parameters": {{"rope_type": "default", "rope_theta": {}}})",
        second));
  };
  CHECK(read(twice("10000")).rope_theta == 10000.0);
  CHECK(contains(refusal(twice("500000")),
                 "rope_parameters.rope_theta: found 500000, but rope_theta is 10000"));
  const auto scaled_twice = [](std::string_view type, std::string_view factor) {
    return llama(fmt::format(
        R"("rope_scaling": {{"rope_type": "linear", "factor": 4.0}},
           "rope_parameters": {{"rope_type": "{}", "factor": {}}})",
        type, factor));
  };
  CHECK_NOTHROW(read(scaled_twice("linear", "4.0")));
  CHECK(contains(refusal(scaled_twice("linear", "2.0")),
                 "rope_parameters.factor: found 2, but rope_scaling.factor is 4"));
  CHECK(contains(refusal(scaled_twice("dynamic", "4.0")),
                 "rope_parameters.rope_type: found \"dynamic\", but rope_scaling is \"linear\""));
  CHECK(contains(refusal(llama(R"("rope_theta": 10000, "rope_theta": 20000)")),
                 "the key 'rope_theta' appears twice"));
}

TEST_CASE("harmless keys are noted, unknown ones too, dropout by its rate") {
  const ModelConfig config =
      read(llama(R"("use_cache": true, "torch_dtype": "bfloat16", "attention_dropout": 0.1,
                    "my_key": 5)"));
  REQUIRE(config.notes.size() == 3);
  CHECK(config.notes[0] ==
        "dropout of attention probabilities is not built: attention_dropout=0.1");
  CHECK(config.notes[1] == "no effect on the model: use_cache, torch_dtype");
  CHECK(config.notes[2] == "unknown keys, ignored: my_key");
}

TEST_CASE("families differ where their definitions do") {
  const std::string heads = R"("num_key_value_heads": 2, "sliding_window": null)";
  const ModelConfig qwen2 = read(llama(heads, "qwen2"));
  CHECK(qwen2.attention_bias);
  CHECK_FALSE(qwen2.output_bias);
  const ModelConfig qwen3 = read(llama(heads, "qwen3"));
  CHECK(qwen3.qk_norm);
  CHECK_FALSE(qwen3.attention_bias);
  CHECK_FALSE(read(llama(heads, "mistral")).attention_bias);
  const ModelConfig biased = read(llama(R"("attention_bias": true, "mlp_bias": true)"));
  CHECK(biased.attention_bias);
  CHECK(biased.output_bias);
  // q, k, v, o: 4 * 64; gate, up 2 * 96, down 64; two layers.
  CHECK(count_parameters(biased) == count_parameters(read(llama(""))) + 2 * (256 + 192 + 64));
}

// Numbers of transformers 5: configuration_<family>.py.
TEST_CASE("a key that is left out is what the family's library takes, and a note says so") {
  // 64 heads, so that the 4, 8 and 32 key/value heads of the families divide them.
  const auto config_of = [](const std::string& type, const std::string& more) {
    return read(R"({"model_type": ")" + type + R"(", "num_hidden_layers": 1, "hidden_size": 1024,
        "num_attention_heads": 64, "intermediate_size": 96, "vocab_size": 100,
        "max_position_embeddings": 32)" +
                more + "}");
  };
  CHECK(config_of("llama", "").kv_heads == 64);
  CHECK(config_of("llama", "").notes.empty());
  CHECK(config_of("mistral", R"(, "sliding_window": null)").kv_heads == 8);
  CHECK(config_of("qwen2", "").kv_heads == 32);
  CHECK(config_of("qwen2", "").head_size == 16);
  const ModelConfig qwen3 = config_of("qwen3", "");
  CHECK(qwen3.head_size == 128);
  CHECK(qwen3.kv_heads == 32);
  REQUIRE(qwen3.notes.size() == 1);
  CHECK(qwen3.notes[0] ==
        "left out, so as the family has it: num_key_value_heads=32, head_dim=128");
  const ModelConfig mixtral = config_of("mixtral", R"(, "num_local_experts": 4)");
  CHECK(mixtral.kv_heads == 8);
  CHECK(mixtral.top_k == 2);
  CHECK(mixtral.rope_theta == 1e6);
  CHECK(mixtral.norm_epsilon == 1e-5);
  const ModelConfig moe =
      config_of("qwen3_moe", R"(, "num_experts": 16, "moe_intermediate_size": 24)");
  CHECK(moe.top_k == 8);
  CHECK(moe.kv_heads == 4);
  CHECK(moe.head_size == 16);
  CHECK(contains(moe.notes[0], "num_experts_per_tok=8"));
  // Null is given, and means what follows from the other keys.
  const ModelConfig null = config_of("qwen3", R"(, "num_key_value_heads": null, "head_dim": null)");
  CHECK(null.kv_heads == 64);
  CHECK(null.head_size == 16);
  CHECK(null.notes.empty());
}

TEST_CASE("a family's own number that the file cannot have is refused as missing") {
  CHECK(contains(refusal(llama("", "qwen2")),
                 "num_key_value_heads is missing, and the family's 32 do not divide 4 heads"));
  CHECK(contains(refusal(llama(R"("num_experts": 4, "moe_intermediate_size": 24)", "qwen3_moe")),
                 "num_experts_per_tok is missing, and the family's would be 8 of 4 experts"));
  CHECK(contains(refusal(llama(R"("num_key_value_heads": 2)", "mistral")),
                 "sliding_window is missing, and the family's is 4096; null means none"));
}

TEST_CASE("names of newer files are those of older ones, and two that differ are refused") {
  const std::string moe = R"("num_experts_per_tok": 2, "moe_intermediate_size": 24)";
  const auto counted = [&](const std::string& keys, const std::string& type) {
    return count_parameters(read(llama("\"num_key_value_heads\": 2, " + keys + ", " + moe, type)));
  };
  CHECK(counted(R"("num_local_experts": 4)", "qwen3_moe") ==
        counted(R"("num_experts": 4)", "qwen3_moe"));
  CHECK(counted(R"("num_local_experts": 4)", "mixtral") ==
        counted(R"("num_experts": 4)", "mixtral"));
  CHECK(contains(refusal(llama(R"("num_experts": 4, "num_local_experts": 8, )" + moe, "qwen3_moe")),
                 "num_local_experts: found 8, but num_experts is 4: wanted one value"));
  const std::string old =
      R"({"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 3, "vocab_size": 11,
          "n_positions": 5)";
  const std::string now =
      R"({"model_type": "gpt2", "hidden_size": 8, "num_attention_heads": 2,
          "num_hidden_layers": 3, "vocab_size": 11, "max_position_embeddings": 5})";
  CHECK(count_parameters(read(now)) == count_parameters(read(old + "}")));
  CHECK(contains(refusal(old + R"(, "n_ctx": 6})"),
                 "n_ctx: found 6, but n_positions is 5: wanted one value"));
}

TEST_CASE("sizes of windows that are off, and of layers that there are not, are still sizes") {
  const auto qwen = [](const std::string& more) {
    return llama("\"num_key_value_heads\": 2, " + more, "qwen3");
  };
  CHECK(contains(refusal(qwen(R"("use_sliding_window": false, "sliding_window": -5)")),
                 "sliding_window: found -5"));
  CHECK(contains(refusal(qwen(R"("max_window_layers": "many")")),
                 "max_window_layers: found \"many\""));
  CHECK(contains(refusal(qwen(R"("use_sliding_window": 0)")), "wanted true or false"));
  CHECK(contains(refusal(qwen(R"("layer_types": ["full_attention"])")),
                 "layer_types: 1 types, but num_hidden_layers is 2"));
  const std::string experts =
      R"("num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2,
         "moe_intermediate_size": 24, )";
  CHECK(contains(refusal(llama(experts + R"("decoder_sparse_step": 1.5)", "qwen3_moe")),
                 "decoder_sparse_step"));
}

TEST_CASE("a gpt2 config needs few keys") {
  const std::string keys =
      R"("n_embd": 8, "n_head": 2, "n_layer": 3, "vocab_size": 11, "n_positions": 5)";
  const ModelConfig config = read("{" + keys + "}");
  // 3 (12 * 8^2 + 13 * 8) + 2 * 8 + (11 + 5) * 8.
  CHECK(count_parameters(config) == 3 * (768 + 104) + 16 + 128);
  CHECK(contains(config.notes.back(), "read as gpt2"));
  CHECK_FALSE(config.exact_gelu);
  CHECK(read("{" + keys + R"(, "activation_function": "gelu"})").exact_gelu);
  CHECK(read("{" + keys + R"(, "n_inner": 7})").ffn == 7);
  CHECK(contains(refusal("{" + keys + R"(, "activation_function": "relu"})"),
                 "activation_function: \"relu\" is not supported"));
  CHECK(contains(refusal("{" + keys + R"(, "scale_attn_by_inverse_layer_idx": true})"),
                 "attention scaled by layer"));
  CHECK(contains(refusal(R"({"n_embd": 9, "n_head": 2, "n_layer": 3, "vocab_size": 11})"),
                 "n_head: 2 heads do not divide n_embd = 9"));
}

TEST_CASE("what changes the model and is not built is refused by name") {
  CHECK(contains(refusal(llama("", "qwen2_moe")),
                 "'qwen2_moe' is not supported (experts shared by all tokens)"));
  CHECK(contains(refusal(llama("", "phi")), "partial rotary"));
  CHECK(contains(refusal(llama("", "roberta")), "shifted positions of an encoder"));
  CHECK(contains(refusal(llama(R"("type_vocab_size": 2)")), "token types of an encoder"));
  CHECK(contains(refusal(llama("", "nonsense")), "the family 'nonsense' is not known"));
  CHECK(contains(refusal(llama(R"("num_local_experts": 8)")),
                 "mixture of experts (num_local_experts = 8)"));
  CHECK(contains(refusal(llama(R"("kv_lora_rank": 512)")), "latent attention"));
  CHECK(contains(refusal(llama(R"("quantization_config": {"quant_method": "fp8"})")),
                 "quantised weights"));
  CHECK(contains(refusal(llama(R"("partial_rotary_factor": 0.5)")), "partial rotary"));
  CHECK(contains(refusal(llama(R"("use_sliding_window": true)", "qwen2")), "sliding windows"));
  CHECK(contains(refusal(llama(R"("sliding_window": 4096)", "mistral")), "sliding windows"));
  CHECK(contains(refusal(llama(R"("layer_types": ["full_attention", "sliding_attention"])")),
                 "layers of type sliding_attention"));
  CHECK(contains(refusal(llama(R"("hidden_act": "gelu")")), "hidden_act: \"gelu\""));
  CHECK(contains(refusal(llama(R"("architectures": ["LlamaForSequenceClassification"])")),
                 "LlamaForSequenceClassification is not supported"));
}

TEST_CASE("a bert config gives an encoder with the head of its masked tokens") {
  const ModelConfig config =
      read(llama(R"("hidden_act": "gelu_new", "tie_word_embeddings": false)", "bert"));
  CHECK_FALSE(config.causal);
  CHECK(config.post_norm);
  CHECK(config.embedding_norm);
  CHECK(config.head_transform);
  CHECK(config.head_bias);
  CHECK_FALSE(config.exact_gelu);
  CHECK_FALSE(config.tied_embeddings);
  CHECK(config.token_types == 2);
  CHECK(config.norm_epsilon == 1e-12);
  CHECK(config.residual_dropout == 0.1);
  CHECK(config.mask_id == 99);  // of 100 tokens the last
  CHECK(read(llama(R"("mask_token_id": 4)", "bert")).mask_id == 4);
  CHECK(contains(refusal(llama(R"("mask_token_id": 100)", "bert")), "mask_token_id"));
  CHECK(std::any_of(config.notes.begin(), config.notes.end(), [](const std::string& note) {
    return contains(note, "attention_probs_dropout_prob is left out");
  }));
  CHECK(contains(refusal(llama(R"("is_decoder": true)", "bert")), "is_decoder: a decoder"));
  CHECK(contains(refusal(llama(R"("position_embedding_type": "relative_key")", "bert")),
                 "\"relative_key\" is not supported, wanted absolute"));
  CHECK(contains(refusal(llama(R"("num_attention_heads": 3)", "bert")), "num_attention_heads"));
}

TEST_CASE("a mixtral config gives its experts, a qwen3_moe config their own width") {
  const ModelConfig mixtral =
      read(llama(R"("num_local_experts": 4, "num_experts_per_tok": 3, "router_aux_loss_coef": 0.02,
               "num_key_value_heads": 4)",
                 "mixtral"));
  CHECK(mixtral.experts == 4);
  CHECK(mixtral.top_k == 3);
  CHECK(mixtral.normalized_experts);
  CHECK_FALSE(mixtral.capacity_factor);
  CHECK(contains(capacity_assumption(mixtral).value_or(""), "other room, 1.33 a place for every"));
  REQUIRE(mixtral.notes.size() == 1);
  CHECK(mixtral.notes[0] == "no loss balances the experts: router_aux_loss_coef=0.02");
  // Router 64 * 4 and three more MLPs of 3 * 64 * 96 in each of two layers.
  CHECK(count_parameters(mixtral) ==
        count_parameters(read(llama(""))) + 2 * (64 * 4 + 3 * 3 * 64 * 96));
  const ModelConfig qwen = read(llama(
      R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
         "num_key_value_heads": 4, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [])",
      "qwen3_moe"));
  CHECK(qwen.ffn == 24);
  CHECK(qwen.qk_norm);
  CHECK(qwen.normalized_experts);
  CHECK(contains(refusal(llama(R"("num_local_experts": 2, "num_experts_per_tok": 3,
                            "num_key_value_heads": 4)",
                               "mixtral")),
                 "num_experts_per_tok: 3 of 2 experts"));
  CHECK(contains(refusal(llama(R"("num_local_experts": 2, "moe_frequency": 2)", "mixtral")),
                 "layers without experts (moe_frequency = 2)"));
  CHECK(contains(refusal(llama(R"("num_local_experts": 2, "sliding_window": 9)", "mixtral")),
                 "sliding windows"));
}

TEST_CASE("gpt2 drops embeddings and residuals at the rates of its file") {
  const ModelConfig config = read(
      R"({"n_embd": 8, "n_head": 2, "n_layer": 3, "vocab_size": 11, "n_positions": 5,
          "attn_pdrop": 0.3, "embd_pdrop": 0.2, "resid_pdrop": 0.1})");
  CHECK(config.residual_dropout == 0.1);
  CHECK(config.embedding_dropout == 0.2);
  CHECK(contains(config.notes[1], "attention probabilities is not built: attn_pdrop=0.3"));
}

TEST_CASE("keys that are set to nothing are no features") {
  CHECK(refusal(llama(R"("quantization_config": null, "num_nextn_predict_layers": 0,
                         "use_sliding_window": false, "partial_rotary_factor": 1.0)")) ==
        "accepted");
  CHECK(refusal(llama(R"("sliding_window": null, "num_key_value_heads": 2)", "mistral")) ==
        "accepted");
  CHECK(refusal(llama(R"("use_sliding_window": false, "sliding_window": 4096,
                         "num_key_value_heads": 2)",
                      "qwen2")) == "accepted");
}

TEST_CASE("architectures and model_type that disagree are refused, all reasons at once") {
  const std::string text = refusal(llama(R"("architectures": ["Qwen3MoeForCausalLM"],
      "num_experts": 128, "quantization_config": {"quant_method": "fp8"})",
                                         "qwen2_moe"));
  CHECK(contains(text, "architectures say qwen3_moe, model_type says qwen2_moe"));
  CHECK(contains(text, "mixture of experts (num_experts = 128)"));
  CHECK(contains(text, "quantised weights"));
}

TEST_CASE("missing, malformed and impossible values are named by their key") {
  CHECK(contains(refusal(R"({"model_type": "llama", "hidden_size": 64})"),
                 "the key 'num_hidden_layers' is missing"));
  CHECK(contains(refusal(llama(R"("num_key_value_heads": 3)")),
                 "num_key_value_heads: 3 key/value heads do not divide 4 heads"));
  CHECK(contains(refusal(llama(R"("head_dim": 0)")), "head_dim: found 0, wanted 1 to"));
  CHECK(contains(refusal(llama(R"("rope_theta": "big")")), "rope_theta: found \"big\""));
  CHECK(contains(refusal(llama(R"("attention_dropout": 1.5)")), "attention_dropout: found 1.5"));
  CHECK(contains(refusal(llama(R"("attention_dropout": -3)")), "attention_dropout: found -3"));
  CHECK(contains(refusal(llama(R"("tie_word_embeddings": 1)")), "wanted true or false"));
}

TEST_CASE("files that are no model configs are told apart") {
  CHECK(contains(refusal(R"({"peft_type": "LORA", "base_model_name_or_path": "qwen"})"),
                 "the config of an adapter (peft_type), not of a model; its base model is qwen"));
  CHECK(contains(refusal(R"({"version": "1.0", "added_tokens": []})"), "a tokenizer"));
  CHECK(contains(refusal(R"({"hidden": 25600, "num_blocks": 128})"),
                 "neither model_type nor architectures"));
  CHECK(contains(refusal("{}"), "neither model_type nor architectures"));
}

struct UserFile {
  const char* name;
  std::int64_t parameters;
};

TEST_CASE("parameters of users' files are the published ones") {
  const std::filesystem::path folder =
      std::filesystem::path(SEXTANT_SOURCE_ROOT) / "../shared/userfiles/hf_config";
  if (!std::filesystem::exists(folder)) {
    MESSAGE("SKIPPED: no users' files beside the source tree");
    return;
  }
  for (const UserFile& file :
       {UserFile{"llama-2-7b", 6'738'415'616}, UserFile{"llama-2-13b", 13'016'028'160},
        UserFile{"llama-3-70b", 70'553'706'496}, UserFile{"llama-3.1-70b", 70'553'706'496},
        UserFile{"llama-3.2-1b-instruct", 1'235'814'400},
        UserFile{"qwen2.5-7b-instruct", 7'615'616'512}, UserFile{"qwen2-0_5b", 463'987'712},
        UserFile{"qwen3-0.6b", 596'049'920}, UserFile{"qwen3-4b", 4'022'468'096},
        UserFile{"gpt2-style-345M", 354'823'168},
        // 124,644,864 with a pooler of h^2 + h (50,265 tokens in this copy); the head of masked
        // tokens is as large and has a norm and a bias per token besides.
        UserFile{"bert-base-uncased", 124'644'864 + 2 * 768 + 50'265},
        // 32 key/value heads in this file, 8 as published: 32 * 2 * 4096 * 3072 more.
        UserFile{"mixtral-8x7b", 46'702'792'704 + 32 * 2 * 4096LL * 3072}}) {
    CAPTURE(std::string(file.name));
    const ModelConfig config = load_model((folder / (std::string(file.name) + ".json")).string());
    CHECK(config.name == file.name);
    CHECK(count_parameters(config) == file.parameters);
  }
  CHECK_NOTHROW(load_model((folder / "llama-fake-small.json").string()));
}

TEST_CASE("users' files of other families are refused with the reason") {
  const std::filesystem::path root =
      std::filesystem::path(SEXTANT_SOURCE_ROOT) / "../shared/userfiles";
  if (!std::filesystem::exists(root)) {
    MESSAGE("SKIPPED: no users' files beside the source tree");
    return;
  }
  const auto refused = [&](const std::string& file) -> std::string {
    try {
      load_model((root / file).string());
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      return error.what();
    }
    return "accepted";
  };
  CHECK(contains(refused("hf_config/phi-2.json"), "partial rotary"));
  CHECK(contains(refused("hf_config/deepseek-r1.json"), "latent attention"));
  CHECK(contains(refused("hf_config/kimi_k2.json"), "latent attention"));
  CHECK(contains(refused("hf_config/qwen3-next-80B-A3B.json"), "linear attention"));
  CHECK(contains(refused("hf_config/glm45.json"), "mixture of experts"));
  CHECK(contains(refused("hf_config/tinybert-student.json"), "neither model_type nor"));
  const std::string quantised = refused("hf_config/qwen3-235B-A22B_FP8.json");
  CHECK(contains(quantised, "architectures say qwen3_moe, model_type says qwen2_moe"));
  CHECK(contains(quantised, "quantised weights"));
  CHECK(contains(refused("bad_config/lora-adapter-config.json"), "adapter"));
  CHECK(contains(refused("bad_config/tokenizer-vocab-named-config.json"), "tokenizer"));
  CHECK(contains(refused("bad_config/megatron-argsstyle-qwen14b.json"), "neither model_type nor"));
}

TEST_CASE("no users' file of any kind crashes the reader") {
  const std::filesystem::path root =
      std::filesystem::path(SEXTANT_SOURCE_ROOT) / "../shared/userfiles";
  if (!std::filesystem::exists(root)) {
    MESSAGE("SKIPPED: no users' files beside the source tree");
    return;
  }
  std::size_t accepted = 0, refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file() || entry.path().string().find("hf_config") != std::string::npos)
      continue;
    try {
      load_model(entry.path().string());
      ++accepted;
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kBadInput);
      ++refused;
    }
  }
  CHECK(accepted == 0);
  CHECK(refused > 50);
}

}  // namespace
}  // namespace sextant::hugging_face_test
