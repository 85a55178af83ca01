// config.json of Hugging Face -> model config, for the families whose sizes say everything: bert,
// gpt2, llama, mistral, mixtral, qwen2, qwen3 and qwen3_moe. What changes the model and is not
// built is refused by name; what changes nothing is noted.
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "models/hugging_face_features.h"
#include "models/importers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

namespace sextant::importers {
namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 30;

// Typed access that remembers which keys were read.
class ConfigReader {
 public:
  explicit ConfigReader(const JsonCursor& root) : root_(root) {}

  std::optional<JsonCursor> find(std::string_view key) {
    used_.emplace(key);
    return root_.find_value(key);
  }
  JsonCursor at(std::string_view key) {
    used_.emplace(key);
    return root_.at(key);
  }
  std::int64_t size(std::string_view key) { return at(key).integer_between(1, kMostSize); }
  std::int64_t size_or(std::string_view key, std::int64_t fallback) {
    const auto found = find(key);
    return found ? found->integer_between(1, kMostSize) : fallback;
  }
  // One value under any of its names: old and new files differ. Two values are refused.
  std::int64_t size_under(std::initializer_list<std::string_view> names) {
    std::optional<std::int64_t> size;
    std::string_view said_by;
    for (const std::string_view name : names) {
      const auto found = find(name);
      if (!found) continue;
      const std::int64_t value = found->integer_between(1, kMostSize);
      if (size && *size != value)
        found->refuse(
            fmt::format("found {}, but {} is {}: wanted one value", value, said_by, *size));
      if (!size) said_by = name;
      size = value;
    }
    return size ? *size : at(*names.begin()).integer();
  }
  double real_or(std::string_view key, double fallback) {
    const auto found = find(key);
    return found ? found->real() : fallback;
  }
  // What transformers takes where the key is missing; one that is null is given, and says nothing.
  // The user is told which were taken.
  std::int64_t size_or_own(std::string_view key, std::int64_t of_family, std::int64_t of_null) {
    if (root_.contains(key)) return size_or(key, of_null);
    used_.emplace(key);
    taken_.push_back(fmt::format("{}={}", key, of_family));
    return of_family;
  }
  double real_or_own(std::string_view key, double of_family, double of_null) {
    if (root_.contains(key)) return real_or(key, of_null);
    used_.emplace(key);
    taken_.push_back(fmt::format("{}={}", key, of_family));
    return of_family;
  }
  const std::vector<std::string>& taken() const { return taken_; }
  bool flag_or(std::string_view key, bool fallback) {
    const auto found = find(key);
    return found ? found->boolean() : fallback;
  }
  // Refuses values other than `accepted`, which all mean the same.
  void require_text(std::string_view key, std::initializer_list<std::string_view> accepted) {
    const auto found = find(key);
    if (!found) return;
    if (std::find(accepted.begin(), accepted.end(), found->text()) == accepted.end())
      found->refuse(
          fmt::format("\"{}\" is not supported, wanted {}", found->text(),
                      comma_list(std::vector<std::string>(accepted.begin(), accepted.end()))));
  }

  std::vector<std::string> unused() const {
    std::vector<std::string> names;
    for (std::string& key : root_.keys())
      if (used_.count(key) == 0) names.push_back(std::move(key));
    return names;
  }
  const JsonCursor& root() const { return root_; }

 private:
  JsonCursor root_;
  std::set<std::string, std::less<>> used_;
  std::vector<std::string> taken_;  // "head_dim=128"
};

void read_gelu(ConfigReader& reader, std::string_view key, ModelConfig& config) {
  const auto found = reader.find(key);
  if (!found) return;
  const std::string& name = found->text();
  config.exact_gelu = name == "gelu";
  if (!config.exact_gelu && name != "gelu_new" && name != "gelu_pytorch_tanh" &&
      name != "gelu_fast")
    found->refuse(fmt::format("\"{}\" is not supported, wanted gelu_new or gelu", name));
}

ModelConfig read_gpt2(ConfigReader& reader) {
  ModelConfig config = gpt2_family();
  config.layers = reader.size_under({"n_layer", "num_hidden_layers"});
  config.hidden = reader.size_under({"n_embd", "hidden_size"});
  config.heads = config.kv_heads = reader.size_under({"n_head", "num_attention_heads"});
  if (config.hidden % config.heads != 0)
    reader.at(reader.root().contains("n_head") ? "n_head" : "num_attention_heads")
        .refuse(fmt::format("{} heads do not divide n_embd = {}", config.heads, config.hidden));
  config.head_size = config.hidden / config.heads;
  config.ffn = reader.size_or("n_inner", 4 * config.hidden);
  config.vocab = reader.size("vocab_size");
  config.sequence = reader.size_under({"n_positions", "n_ctx", "max_position_embeddings"});
  config.norm_epsilon = reader.real_or("layer_norm_epsilon", 1e-5);
  config.initializer_range = reader.real_or("initializer_range", 0.02);
  config.tied_embeddings = reader.flag_or("tie_word_embeddings", true);
  config.residual_dropout = reader.real_or_own("resid_pdrop", 0.1, 0);
  config.embedding_dropout = reader.real_or_own("embd_pdrop", 0.1, 0);
  if (!reader.root().contains("attn_pdrop"))
    config.notes.emplace_back(
        "dropout of attention probabilities is not built: attn_pdrop is left out, and the "
        "family's is 0.1");
  read_gelu(reader, "activation_function", config);
  if (!reader.flag_or("scale_attn_weights", true))
    reader.at("scale_attn_weights").refuse("attention without 1/sqrt(head size) is not supported");
  return config;
}

// What a decoder of the family would have, or other positions, is another model.
void require_plain_encoder(ConfigReader& reader) {
  if (reader.flag_or("is_decoder", false))
    reader.at("is_decoder").refuse("a decoder of an encoder's family is not supported");
  reader.require_text("position_embedding_type", {"absolute"});
}

// A config.json of the hub does not say it, its tokenizer does.
void read_mask(ConfigReader& reader, ModelConfig& config) {
  if (const auto mask = reader.find("mask_token_id")) {
    config.mask_id = mask->integer_between(0, config.vocab - 1);
    return;
  }
  config.mask_id = std::min(config.mask_id, config.vocab - 1);
  config.notes.push_back(fmt::format(
      "mask_token_id is missing: token {} is taken for the mask, as in bert-base-uncased",
      config.mask_id));
}

// BertForMaskedLM: what BertForPreTraining predicts of the next sentence is left out.
ModelConfig read_bert(ConfigReader& reader) {
  ModelConfig config = bert_family();
  require_plain_encoder(reader);
  config.layers = reader.size("num_hidden_layers");
  config.hidden = reader.size("hidden_size");
  config.heads = config.kv_heads = reader.size("num_attention_heads");
  if (config.hidden % config.heads != 0)
    reader.at("num_attention_heads")
        .refuse(
            fmt::format("{} heads do not divide hidden_size = {}", config.heads, config.hidden));
  config.head_size = config.hidden / config.heads;
  config.ffn = reader.size_or_own("intermediate_size", 3072, 3072);
  config.vocab = reader.size("vocab_size");
  config.sequence = reader.size_or_own("max_position_embeddings", 512, 512);
  read_mask(reader, config);
  config.token_types = reader.size_or_own("type_vocab_size", 2, 2);
  config.norm_epsilon = reader.real_or("layer_norm_eps", 1e-12);
  config.initializer_range = reader.real_or("initializer_range", 0.02);
  config.tied_embeddings = reader.flag_or("tie_word_embeddings", true);
  config.residual_dropout = config.embedding_dropout =
      reader.real_or_own("hidden_dropout_prob", 0.1, 0);
  if (!reader.root().contains("attention_probs_dropout_prob"))
    config.notes.emplace_back(
        "dropout of attention probabilities is not built: attention_probs_dropout_prob is left "
        "out, and the family's is 0.1");
  read_gelu(reader, "hidden_act", config);
  config.notes.emplace_back(
      "the model of masked tokens: every token is of the first segment, nothing is said of the "
      "next sentence, and there is no pooler");
  return config;
}

// Keys of a rotary scaling beside its type. What changes nothing here is still read: a file that no
// other program takes is a slip.
struct RopeScaling {
  std::string_view type;
  std::vector<std::string_view> needed, optional;
};

const std::vector<RopeScaling>& rope_scalings() {
  static const std::vector<RopeScaling> scalings = {
      {"default", {}, {}},
      {"linear", {"factor"}, {}},
      {"dynamic", {"factor"}, {"original_max_position_embeddings"}},
      {"yarn",
       {"factor"},
       {"original_max_position_embeddings", "attention_factor", "beta_fast", "beta_slow", "mscale",
        "mscale_all_dim"}},
      {"llama3",
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"},
       {}}};
  return scalings;
}

// Two keys for one thing are one value.
void require_equal(const JsonCursor& value, double given, const std::string& before) {
  if (value.real() != given)
    value.refuse(
        fmt::format("found {}, but {} is {}: wanted one value", value.real(), before, given));
}

JsonCursor rope_type(const JsonCursor& scaling) {
  const auto type = scaling.find_value("rope_type"), old = scaling.find_value("type");
  if (!type && !old) scaling.refuse("the key 'rope_type' is missing");
  if (type && old && type->text() != old->text())
    old->refuse(fmt::format("found \"{}\", but rope_type is \"{}\"", old->text(), type->text()));
  return type ? *type : *old;
}

void require_scaling_number(const JsonCursor& value, std::string_view key) {
  if (key == "original_max_position_embeddings") {
    value.integer_between(1, kMostSize);
    return;
  }
  const double least = key == "factor" ? 1 : 0, number = value.real();
  if (!std::isfinite(number) || number < least || number == 0)
    value.refuse(
        fmt::format("found {}, wanted {}", number, least == 1 ? "1 or more" : "a number above 0"));
}

RotaryScaling scaling_of(const JsonCursor& scaling, std::string_view type) {
  RotaryScaling read{.factor = scaling.at("factor").real()};
  if (read.is_none()) return {};
  if (type == "linear") return read;
  read.low_turns = scaling.at("low_freq_factor").real();
  read.high_turns = scaling.at("high_freq_factor").real();
  read.original_length =
      scaling.at("original_max_position_embeddings").integer_between(1, kMostSize);
  return read;
}

void read_scaling(const JsonCursor& scaling, std::string_view key, ModelConfig& config) {
  const JsonCursor type = rope_type(scaling);
  const auto known = std::find_if(rope_scalings().begin(), rope_scalings().end(),
                                  [&](const RopeScaling& one) { return one.type == type.text(); });
  if (known == rope_scalings().end())
    type.refuse(fmt::format("rotary scaling \"{}\" is not supported", type.text()));
  for (const std::string_view needed : known->needed)
    require_scaling_number(scaling.at(needed), needed);
  for (const std::string_view optional : known->optional)
    if (const auto value = scaling.find_value(optional)) require_scaling_number(*value, optional);
  if (known->type == "llama3" &&
      scaling.at("high_freq_factor").real() <= scaling.at("low_freq_factor").real())
    scaling.refuse("high_freq_factor must be above low_freq_factor");
  if (known->type == "linear" || known->type == "llama3")
    config.rope_scaling = scaling_of(scaling, known->type);
  else if (known->type != "default")
    config.notes.push_back(fmt::format(
        "{} {}: positions are built unscaled; parameters, shapes and costs are the same", key,
        type.text()));
  const auto rotary = scaling.find_value("partial_rotary_factor");
  if (rotary && rotary->real() != 1)
    rotary->refuse(
        fmt::format("found {}: partial rotary positions are not supported", rotary->real()));
  std::vector<std::string> unknown;
  for (const std::string& other : scaling.keys()) {
    const auto is_it = [&](std::string_view one) { return one == other; };
    if (!is_it("partial_rotary_factor") && !is_it("rope_type") && !is_it("type") &&
        !is_it("rope_theta") && std::none_of(known->needed.begin(), known->needed.end(), is_it) &&
        std::none_of(known->optional.begin(), known->optional.end(), is_it))
      unknown.push_back(other);
  }
  if (!unknown.empty())
    config.notes.push_back(
        fmt::format("unknown keys of {} {}, ignored: {}", key, type.text(), comma_list(unknown)));
}

// Old and new files have one of them; with both, what both say must be one thing.
void require_one_scaling(const JsonCursor& old, const JsonCursor& now) {
  if (rope_type(old).text() != rope_type(now).text())
    rope_type(now).refuse(fmt::format("found \"{}\", but rope_scaling is \"{}\"",
                                      rope_type(now).text(), rope_type(old).text()));
  for (const std::string& key : now.keys()) {
    const auto before = old.find_value(key), value = now.find_value(key);
    if (!before || !value || key == "rope_type" || key == "type" || !before->is_number()) continue;
    require_equal(*value, before->real(), "rope_scaling." + key);
  }
}

// Rotary scaling changes frequencies, not shapes or costs. Two of its ways are built.
void read_rope(ConfigReader& reader, double theta_of_family, ModelConfig& config) {
  const auto old = reader.find("rope_scaling"), now = reader.find("rope_parameters");
  if (old && now) require_one_scaling(*old, *now);
  const auto own = reader.find("rope_theta");
  std::string said_by = "rope_theta";
  std::optional<double> theta;
  if (own) theta = own->real();
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const auto scaling = reader.find(key);
    if (!scaling) continue;
    if (const auto inner = scaling->find_value("rope_theta")) {
      if (theta) require_equal(*inner, *theta, said_by);
      theta = inner->real();
      said_by = std::string(key) + ".rope_theta";
    }
    read_scaling(*scaling, key, config);
  }
  config.rope_theta = theta.value_or(theta_of_family);
  // transformers believes the outer one.
  const auto length = reader.find("original_max_position_embeddings");
  const std::int64_t inner = config.rope_scaling.original_length;
  if (length && inner > 0)
    require_equal(*length, static_cast<double>(inner),
                  "rope_scaling.original_max_position_embeddings");
}

// What a key that a file leaves out is in transformers 5 (configuration_*.py of each family), where
// the families differ. Zero: it follows from other keys.
struct FamilyDefaults {
  std::int64_t kv_heads = 0;
  std::int64_t head_size = 0;
  double norm_epsilon = 1e-6;
  double rope_theta = 10000;
};
constexpr FamilyDefaults kLlamaDefaults{},
    kMistralDefaults{.kv_heads = 8, .head_size = 0, .norm_epsilon = 1e-6, .rope_theta = 1e4},
    kMixtralDefaults{.kv_heads = 8, .head_size = 0, .norm_epsilon = 1e-5, .rope_theta = 1e6},
    kQwen2Defaults{.kv_heads = 32, .head_size = 0, .norm_epsilon = 1e-6, .rope_theta = 1e4},
    kQwen3Defaults{.kv_heads = 32, .head_size = 128, .norm_epsilon = 1e-6, .rope_theta = 1e4},
    kQwen3MoeDefaults{.kv_heads = 4, .head_size = 0, .norm_epsilon = 1e-6, .rope_theta = 1e4};

std::int64_t kv_heads_of(ConfigReader& reader, std::int64_t heads, const FamilyDefaults& family) {
  const std::string_view key = "num_key_value_heads";
  const bool is_given = reader.root().contains(key);
  const std::int64_t kv_heads = family.kv_heads == 0
                                    ? reader.size_or(key, heads)
                                    : reader.size_or_own(key, family.kv_heads, heads);
  if (heads % kv_heads == 0) return kv_heads;
  if (!is_given)
    reader.root().refuse(fmt::format("{} is missing, and the family's {} do not divide {} heads",
                                     key, kv_heads, heads));
  reader.at(key).refuse(fmt::format("{} key/value heads do not divide {} heads", kv_heads, heads));
}

std::int64_t head_size_of(ConfigReader& reader, const ModelConfig& config,
                          const FamilyDefaults& family) {
  if (const auto given = reader.find("head_dim")) return reader.size("head_dim");
  if (family.head_size > 0 && !reader.root().contains("head_dim"))
    return reader.size_or_own("head_dim", family.head_size, family.head_size);
  if (config.hidden % config.heads != 0)
    reader.at("num_attention_heads")
        .refuse(fmt::format("{} heads do not divide hidden_size = {}, and head_dim is missing",
                            config.heads, config.hidden));
  return config.hidden / config.heads;
}

// Values of the Llama family that its relatives share; the width of the MLP is the caller's.
ModelConfig read_attention(ConfigReader& reader, const FamilyDefaults& family) {
  ModelConfig config = llama_family();
  config.layers = reader.size("num_hidden_layers");
  config.hidden = reader.size("hidden_size");
  config.heads = reader.size("num_attention_heads");
  config.kv_heads = kv_heads_of(reader, config.heads, family);
  config.head_size = head_size_of(reader, config, family);
  config.vocab = reader.size("vocab_size");
  const bool has_old_name =
      !reader.find("max_position_embeddings") && reader.root().contains("max_sequence_length");
  config.sequence = reader.size(has_old_name ? "max_sequence_length" : "max_position_embeddings");
  config.norm_epsilon = reader.real_or("rms_norm_eps", family.norm_epsilon);
  config.initializer_range = reader.real_or("initializer_range", 0.02);
  config.tied_embeddings = reader.flag_or("tie_word_embeddings", false);
  reader.require_text("hidden_act", {"silu", "swish"});
  read_rope(reader, family.rope_theta, config);
  return config;
}

ModelConfig read_llama_like(ConfigReader& reader, const FamilyDefaults& family) {
  ModelConfig config = read_attention(reader, family);
  config.ffn = reader.size("intermediate_size");
  return config;
}

ModelConfig read_llama(ConfigReader& reader) {
  ModelConfig config = read_llama_like(reader, kLlamaDefaults);
  config.attention_bias = config.output_bias = reader.flag_or("attention_bias", false);
  config.mlp_bias = reader.flag_or("mlp_bias", false);
  return config;
}

ModelConfig read_mistral(ConfigReader& reader) {
  reader.find("sliding_window");  // only null comes this far (hugging_face_features.cpp)
  return read_llama_like(reader, kMistralDefaults);
}

// Windows are off (hugging_face_features.cpp), so their sizes change nothing; they are still sizes.
void check_windows(ConfigReader& reader, std::int64_t layers) {
  if (const auto used = reader.find("use_sliding_window")) used->boolean();
  for (const std::string_view key : {"sliding_window", "max_window_layers"})
    if (const auto size = reader.find(key)) size->integer_between(0, kMostSize);
  const auto types = reader.find("layer_types");
  if (!types) return;
  const auto count = static_cast<std::int64_t>(types->elements().size());
  if (count != layers)
    types->refuse(fmt::format("{} types, but num_hidden_layers is {}", count, layers));
}

ModelConfig read_qwen2(ConfigReader& reader) {
  ModelConfig config = read_llama_like(reader, kQwen2Defaults);
  config.attention_bias = true;  // of q, k, v, always, without a flag in the file
  check_windows(reader, config.layers);
  return config;
}

void read_qwen3_attention(ConfigReader& reader, ModelConfig& config) {
  config.attention_bias = config.output_bias = reader.flag_or("attention_bias", false);
  config.qk_norm = true;
  reader.find("use_qk_norm");
  check_windows(reader, config.layers);
}

ModelConfig read_qwen3(ConfigReader& reader) {
  ModelConfig config = read_llama_like(reader, kQwen3Defaults);
  read_qwen3_attention(reader, config);
  return config;
}

// What only means "every layer" where it comes this far (hugging_face_features.cpp).
void check_expert_layers(ConfigReader& reader) {
  for (const std::string_view key : {"decoder_sparse_step", "moe_frequency"})
    if (const auto step = reader.find(key)) step->integer();
  reader.find("mlp_only_layers");
}

// Experts of every layer; the loss that balances their load is a choice of the training. Which of
// the two names of their number a file has depends on the version that wrote it.
void read_experts(ConfigReader& reader, ModelConfig& config, std::string_view usual,
                  std::string_view other, std::int64_t top_k) {
  config.experts = reader.size_under({usual, other});
  config.top_k = reader.size_or_own("num_experts_per_tok", top_k, top_k);
  if (config.top_k > config.experts) {
    const std::string found = fmt::format("{} of {} experts", config.top_k, config.experts);
    if (!reader.root().contains("num_experts_per_tok"))
      reader.root().refuse("num_experts_per_tok is missing, and the family's would be " + found);
    reader.at("num_experts_per_tok").refuse(found);
  }
  const auto balance = reader.find("router_aux_loss_coef");
  if (balance && balance->real() != 0)
    config.notes.push_back(
        fmt::format("no loss balances the experts: router_aux_loss_coef={}", balance->real()));
  const auto jitter = reader.find("router_jitter_noise");
  if (jitter && jitter->real() != 0)
    config.notes.push_back(
        fmt::format("tokens are routed without noise: router_jitter_noise={}", jitter->real()));
  check_expert_layers(reader);
}

ModelConfig read_mixtral(ConfigReader& reader) {
  reader.find("sliding_window");
  ModelConfig config = read_llama_like(reader, kMixtralDefaults);
  read_experts(reader, config, "num_local_experts", "num_experts", 2);
  return config;
}

ModelConfig read_qwen3_moe(ConfigReader& reader) {
  ModelConfig config = read_attention(reader, kQwen3MoeDefaults);
  read_qwen3_attention(reader, config);
  read_experts(reader, config, "num_experts", "num_local_experts", 8);
  config.ffn = reader.size("moe_intermediate_size");
  reader.size_or("intermediate_size", 1);  // of layers without experts, which there are none of
  config.normalized_experts = reader.flag_or("norm_topk_prob", false);
  return config;
}

struct HuggingFaceFamily {
  std::string_view name;
  ModelConfig (*read)(ConfigReader&);
};
constexpr std::array<HuggingFaceFamily, 8> kHuggingFaceFamilies = {{{"bert", read_bert},
                                                                    {"gpt2", read_gpt2},
                                                                    {"llama", read_llama},
                                                                    {"mistral", read_mistral},
                                                                    {"mixtral", read_mixtral},
                                                                    {"qwen2", read_qwen2},
                                                                    {"qwen3", read_qwen3},
                                                                    {"qwen3_moe", read_qwen3_moe}}};

// The attention operator never holds the probabilities that their dropout would act on.
void note_attention_dropout(ConfigReader& reader, ModelConfig& config) {
  std::vector<std::string> rates;
  for (const std::string_view key :
       {"attn_pdrop", "attention_dropout", "attention_probs_dropout_prob"}) {
    const auto found = reader.find(key);
    if (!found || found->real() == 0) continue;
    if (found->real() < 0 || found->real() >= 1)
      found->refuse(
          fmt::format("found {}: a dropout rate is at least 0 and below 1", found->real()));
    rates.push_back(fmt::format("{}={}", key, found->real()));
  }
  if (!rates.empty())
    config.notes.push_back("dropout of attention probabilities is not built: " + comma_list(rates));
}

void note_unused(const ConfigReader& reader, ModelConfig& config) {
  std::vector<std::string> harmless, unknown;
  for (std::string& key : reader.unused())
    (is_harmless_key(key) ? harmless : unknown).push_back(std::move(key));
  if (!harmless.empty()) config.notes.push_back("no effect on the model: " + comma_list(harmless));
  if (!unknown.empty()) config.notes.push_back("unknown keys, ignored: " + comma_list(unknown));
}

}  // namespace

ModelConfig from_hugging_face(const JsonCursor& root, std::string name) {
  const std::string family_name = supported_family(root);
  const auto family =
      std::find_if(kHuggingFaceFamilies.begin(), kHuggingFaceFamilies.end(),
                   [&](const HuggingFaceFamily& known) { return known.name == family_name; });
  ConfigReader reader(root);
  reader.find("model_type");
  reader.find("architectures");
  ModelConfig config = family->read(reader);
  config.name = std::move(name);
  if (!reader.taken().empty())
    config.notes.push_back("left out, so as the family has it: " + comma_list(reader.taken()));
  if (!root.contains("model_type") && !root.contains("architectures"))
    config.notes.push_back("neither model_type nor architectures: read as gpt2, by its keys");
  note_attention_dropout(reader, config);
  note_unused(reader, config);
  return config;
}

}  // namespace sextant::importers
