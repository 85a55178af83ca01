// A model in one word: "gpt:layers=40,hidden=6144,heads=48,vocab=51200,seq=2048".
#include "core/check.h"
#include "core/nearest.h"
#include "models/importers.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace sextant::importers {
namespace {

const std::vector<std::string>& known_keys() {
  static const std::vector<std::string> kKeys = {
      "layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "vocab", "seq", "tied"};
  return kKeys;
}

std::int64_t parse_value(std::string_view text, std::string_view key, std::string_view value) {
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [after, failure] = std::from_chars(value.data(), end, number);
  require(failure == std::errc() && after == end && number >= 0, ErrorCode::kUsage,
          "'{}': {}={} is not a whole number", text, key, value);
  return number;
}

std::map<std::string, std::int64_t, std::less<>> parse_settings(std::string_view text,
                                                                std::string_view rest) {
  std::map<std::string, std::int64_t, std::less<>> settings;
  while (!rest.empty()) {
    const std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(item.size() + 1, rest.size()));
    const std::size_t equals = item.find('=');
    require(equals != std::string_view::npos, ErrorCode::kUsage,
            "'{}': '{}' is not of the form key=number", text, item);
    const std::string key(item.substr(0, equals));
    const auto& keys = known_keys();
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      throw Error(ErrorCode::kUsage,
                  fmt::format("'{}': unknown key '{}'{}", text, key, did_you_mean(key, keys)),
                  {"known keys: " + comma_list(keys)});
    const bool is_new =
        settings.emplace(key, parse_value(text, key, item.substr(equals + 1))).second;
    require(is_new, ErrorCode::kUsage, "'{}': the key '{}' appears twice", text, key);
  }
  return settings;
}

// Reads settings and notes those that were left out.
class Settings {
 public:
  Settings(std::string_view text, std::string_view rest)
      : text_(text), values_(parse_settings(text, rest)) {}

  std::int64_t required(std::string_view key) const {
    const auto found = values_.find(key);
    require(found != values_.end(), ErrorCode::kUsage,
            "'{}': {}=... is missing; layers, hidden and heads are needed", text_, key);
    return found->second;
  }

  std::int64_t optional(std::string_view key, std::int64_t fallback) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second;
    assumed_ += fmt::format("{}{}={}", assumed_.empty() ? "" : " ", key, fallback);
    return fallback;
  }

  const std::string& assumed() const { return assumed_; }

 private:
  std::string_view text_;
  std::map<std::string, std::int64_t, std::less<>> values_;
  std::string assumed_;
};

void fill(ModelConfig& config, Settings& settings, std::int64_t vocab, std::string_view text) {
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
  config.vocab = settings.optional("vocab", vocab);
  config.sequence = settings.optional("seq", 2048);
  config.tied_embeddings = settings.optional("tied", config.tied_embeddings ? 1 : 0) != 0;
}

}  // namespace

std::optional<ModelConfig> from_one_word(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view family = text.substr(0, colon);
  if (family != "gpt" && family != "llama") return std::nullopt;
  ModelConfig config = family == "gpt" ? gpt2_family() : llama_family();
  Settings settings(text, text.substr(colon + 1));
  // Megatron pads GPT-2's vocabulary of 50257 to a multiple of 1024.
  fill(config, settings, family == "gpt" ? 51200 : 32000, text);
  config.name = text;
  require(config.heads * config.head_size == config.hidden ||
              text.find("head_size=") != std::string_view::npos,
          ErrorCode::kUsage, "'{}': {} heads do not divide the hidden size {}; give head_size=...",
          text, config.heads, config.hidden);
  if (!settings.assumed().empty())
    config.notes.push_back("left out and assumed: " + settings.assumed());
  return config;
}

}  // namespace sextant::importers
