// A model in one word: a family with its sizes, "gpt:layers=40,hidden=6144,heads=48,vocab=51200",
// or a built-in with some of its values changed, "mixtral-8x7b:capacity_factor=1.25,layers=4".
#include "core/base/check.h"
#include "core/base/nearest.h"
#include "core/text/settings_text.h"
#include "models/importers.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

namespace sextant::importers {
namespace {

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> kKeys = {
      "layers", "hidden", "heads",   "kv_heads", "head_size",       "ffn",     "vocab",
      "seq",    "tied",   "experts", "top_k",    "capacity_factor", "dropout", "label_smoothing",
      "mask"};
  return kKeys;
}

using Texts = std::map<std::string, std::string, std::less<>>;

Texts texts_of(std::string_view text, std::string_view rest) {
  require(!rest.empty(), ErrorCode::kUsage, "'{}': nothing behind the colon", text);
  Texts settings;
  const auto& keys = known_keys();
  for (const auto& [key, value] : parse_settings(rest, ",", text)) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      throw Error(ErrorCode::kUsage,
                  fmt::format("'{}': unknown key '{}'{}", text, key, did_you_mean(key, keys)),
                  {"known keys: " + comma_list(keys)});
    settings.emplace(key, value);
  }
  return settings;
}

// Reads settings and notes those that were left out.
class Settings {
 public:
  Settings(std::string_view text, std::string_view rest)
      : text_(text), values_(texts_of(text, rest)) {
    for (const auto& [key, value] : values_) {
      if (is_real(key))
        number<double>(key, "a number");
      else
        number<std::int64_t>(key, "a whole number");
    }
  }

  bool has(std::string_view key) const { return values_.find(key) != values_.end(); }

  std::int64_t required(std::string_view key) const {
    require(has(key), ErrorCode::kUsage,
            "'{}': {}=... is missing; layers, hidden and heads are needed", text_, key);
    return number<std::int64_t>(key, "a whole number");
  }

  std::int64_t optional(std::string_view key, std::int64_t fallback) {
    if (has(key)) return number<std::int64_t>(key, "a whole number");
    assumed_ += fmt::format("{}{}={}", assumed_.empty() ? "" : " ", key, fallback);
    return fallback;
  }

  // Leave the target alone when the key is not there.
  void change(std::string_view key, std::int64_t& target) const {
    if (has(key)) target = number<std::int64_t>(key, "a whole number");
  }
  void change(std::string_view key, double& target) const {
    if (has(key)) target = number<double>(key, "a number");
  }

  const std::string& assumed() const { return assumed_; }

 private:
  static bool is_real(std::string_view key) {
    return key == "capacity_factor" || key == "dropout" || key == "label_smoothing";
  }

  template <typename Number>
  Number number(std::string_view key, std::string_view wanted) const {
    const std::string& value = values_.find(key)->second;
    Number result = 0;
    const char* const end = value.data() + value.size();
    const auto [after, failure] = std::from_chars(value.data(), end, result);
    // Written so that NaN is refused too.
    require(failure == std::errc() && after == end && result >= 0, ErrorCode::kUsage,
            "'{}': {}={} is not {}", text_, key, value, wanted);
    return result;
  }

  std::string_view text_;
  Texts values_;
  std::string assumed_;
};

// A family in one word, and what is assumed of it. Megatron pads GPT-2's vocabulary of 50257 to a
// multiple of 1024.
struct WordFamily {
  std::string_view name;
  ModelConfig (*config)();
  std::int64_t vocab, sequence;
};
constexpr std::array<WordFamily, 3> kWordFamilies = {{{"gpt", gpt2_family, 51200, 2048},
                                                      {"llama", llama_family, 32000, 2048},
                                                      {"bert", bert_family, 30522, 512}}};

void fill(ModelConfig& config, Settings& settings, const WordFamily& family,
          std::string_view text) {
  config.layers = settings.required("layers");
  config.hidden = settings.required("hidden");
  config.heads = settings.required("heads");
  require(config.heads >= 1 && config.hidden >= 1, ErrorCode::kUsage,
          "'{}': hidden and heads must be at least 1", text);
  config.kv_heads = settings.optional("kv_heads", config.heads);
  config.head_size = settings.optional("head_size", config.hidden / config.heads);
  require(config.head_size >= 1, ErrorCode::kUsage,
          "'{}': {} heads are more than the hidden size {}", text, config.heads, config.hidden);
  const bool is_llama = config.mlp == ModelConfig::Mlp::kSwiGlu;
  require(config.hidden <= (std::int64_t{1} << 30), ErrorCode::kUsage,
          "'{}': a hidden size of {} is beyond any model", text, config.hidden);
  config.ffn = settings.optional("ffn", is_llama ? llama_ffn(config.hidden) : 4 * config.hidden);
  config.vocab = settings.optional("vocab", family.vocab);
  config.sequence = settings.optional("seq", family.sequence);
  // No text of bytes holds it.
  if (!config.causal) config.mask_id = settings.optional("mask", 0);
  config.tied_embeddings = settings.optional("tied", config.tied_embeddings ? 1 : 0) != 0;
}

// What a model has only when it is asked for.
void fill_extras(ModelConfig& config, Settings& settings) {
  settings.change("dropout", config.residual_dropout);
  settings.change("dropout", config.embedding_dropout);
  settings.change("label_smoothing", config.label_smoothing);
  settings.change("experts", config.experts);
  if (config.experts == 0) return;
  config.top_k = settings.has("top_k") || config.top_k == 0
                     ? settings.optional("top_k", std::min<std::int64_t>(2, config.experts))
                     : config.top_k;
  // One expert per token: its weight must vary, or nothing would train the router.
  if (config.top_k == 1 && (settings.has("top_k") || settings.has("experts")))
    config.normalized_experts = false;
  if (config.mlp_bias) config.notes.push_back("experts have no biases");
  config.mlp_bias = false;
  if (!settings.has("capacity_factor")) return;
  config.capacity_factor = 0.0;
  settings.change("capacity_factor", *config.capacity_factor);
}

void refuse_without_use(const Settings& settings, const ModelConfig& config,
                        std::string_view text) {
  for (const std::string_view key : {"top_k", "capacity_factor"})
    require(config.experts > 0 || !settings.has(key), ErrorCode::kUsage,
            "'{}': {} is for models with experts", text, key);
  require(!config.causal || !settings.has("mask"), ErrorCode::kUsage,
          "'{}': mask is for models of masked tokens, as bert", text);
}

void require_even_heads(const ModelConfig& config, const Settings& settings,
                        std::string_view text) {
  require(config.heads * config.head_size == config.hidden || settings.has("head_size"),
          ErrorCode::kUsage, "'{}': {} heads do not divide the hidden size {}; give head_size=...",
          text, config.heads, config.hidden);
}

// The model with the values that are given; sizes that follow from others do not follow.
ModelConfig changed(ModelConfig config, const Settings& settings, std::string_view text) {
  settings.change("layers", config.layers);
  settings.change("hidden", config.hidden);
  settings.change("heads", config.heads);
  settings.change("kv_heads", config.kv_heads);
  settings.change("head_size", config.head_size);
  settings.change("ffn", config.ffn);
  settings.change("vocab", config.vocab);
  settings.change("seq", config.sequence);
  std::int64_t tied = config.tied_embeddings ? 1 : 0;
  settings.change("tied", tied);
  config.tied_embeddings = tied != 0;
  settings.change("mask", config.mask_id);
  config.name = text;
  return config;
}

// What all models in one word have in common, behind their family's or their own values.
ModelConfig finished(ModelConfig config, Settings& settings, std::string_view text) {
  fill_extras(config, settings);
  refuse_without_use(settings, config, text);
  if (!settings.assumed().empty())
    config.notes.push_back("left out and assumed: " + settings.assumed());
  return config;
}

}  // namespace

ModelConfig with_values(const ModelConfig& config, std::string_view text, std::string_view values) {
  Settings settings(text, values);
  return finished(changed(config, settings, text), settings, text);
}

std::optional<ModelConfig> from_one_word(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view family = text.substr(0, colon);
  const auto known = builtin(family);
  const auto word =
      std::find_if(kWordFamilies.begin(), kWordFamilies.end(),
                   [&](const WordFamily& candidate) { return candidate.name == family; });
  if (!known && word == kWordFamilies.end()) return std::nullopt;
  if (known) return with_values(*known, text, text.substr(colon + 1));
  Settings settings(text, text.substr(colon + 1));
  ModelConfig config = word->config();
  fill(config, settings, *word, text);
  require_even_heads(config, settings, text);
  config.name = text;
  return finished(std::move(config), settings, text);
}

}  // namespace sextant::importers
