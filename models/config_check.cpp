// What a model config must satisfy, whoever made it.
#include "core/base/check.h"
#include "core/operators/layers/moe.h"
#include "models/checks.h"
#include "models/model.h"

#include <algorithm>

namespace sextant {
namespace {

// Beyond these a typing error is more likely than a model; products of two stay below 2^62.
constexpr std::int64_t kMaxDecoderSize = std::int64_t{1} << 30;
constexpr std::int64_t kMaxLayers = 100'000;

void require_size(const ModelConfig& config, std::string_view name, std::int64_t value,
                  std::int64_t most = kMaxDecoderSize) {
  importers::require_size(config.name, name, value, most);
}

void validate_experts(const ModelConfig& config) {
  if (config.experts == 0) return;
  require_size(config, "experts", config.experts);
  require_size(config, "top_k", config.top_k, config.experts);
  require(!config.mlp_bias, ErrorCode::kBadInput, "{}: biases of experts are not built",
          config.name);
  require(!config.capacity_factor || *config.capacity_factor > 0, ErrorCode::kBadInput,
          "{}: the capacity factor is {}, wanted a positive number", config.name,
          config.capacity_factor.value_or(0));
}

void validate_scaling(const ModelConfig& config) {
  const RotaryScaling& scaling = config.rope_scaling;
  require(scaling.factor >= 1 && scaling.factor < 1e18, ErrorCode::kBadInput,
          "{}: rotary positions are scaled by {}, wanted 1 or more", config.name, scaling.factor);
  require(scaling.original_length == 0 ||
              (scaling.low_turns > 0 && scaling.low_turns < scaling.high_turns &&
               scaling.high_turns < 1e18),
          ErrorCode::kBadInput,
          "{}: rotary positions are scaled between {} and {} turns, wanted two positive numbers "
          "that grow",
          config.name, scaling.low_turns, scaling.high_turns);
}

}  // namespace

std::int64_t places_per_expert(const ModelConfig& config, std::int64_t sequence) {
  const auto places = [&](double factor) {
    return expert_capacity(sequence, config.top_k, config.experts, factor);
  };
  if (config.capacity_factor) return places(*config.capacity_factor);
  // No token chooses an expert twice, so one place per token is enough for any choice.
  return std::min(sequence, places(kPlannedCapacity));
}

std::optional<std::string> capacity_assumption(const ModelConfig& config) {
  if (config.experts == 0 || config.capacity_factor) return std::nullopt;
  return fmt::format(
      "experts have places for {0} times the even share of tokens (tokens x top_k / experts; {0} "
      "as Switch Transformer and ST-MoE train) and drop what is beyond, where the model drops "
      "nothing: capacity_factor=N gives other room, {1:.3g} a place for every token",
      kPlannedCapacity, static_cast<double>(config.experts) / static_cast<double>(config.top_k));
}

void validate(const ModelConfig& config) {
  require_size(config, "layers", config.layers, kMaxLayers);
  require_size(config, "hidden", config.hidden);
  require_size(config, "heads", config.heads);
  require_size(config, "kv_heads", config.kv_heads);
  require_size(config, "head_size", config.head_size);
  require_size(config, "ffn", config.ffn);
  require_size(config, "vocab", config.vocab);
  require_size(config, "sequence", config.sequence);
  require(config.heads <= kMaxDecoderSize / config.head_size, ErrorCode::kBadInput,
          "{}: {} heads of {} are beyond any model", config.name, config.heads, config.head_size);
  require(config.heads % config.kv_heads == 0, ErrorCode::kBadInput,
          "{}: {} heads cannot share {} key/value heads evenly", config.name, config.heads,
          config.kv_heads);
  require(config.positions != ModelConfig::Positions::kRotary || config.head_size % 2 == 0,
          ErrorCode::kBadInput, "{}: rotary positions need an even head size, got {}", config.name,
          config.head_size);
  require(config.token_types >= 0 && config.token_types <= kMaxDecoderSize, ErrorCode::kBadInput,
          "{}: {} token types", config.name, config.token_types);
  require(config.mask_id >= 0 && config.mask_id < config.vocab, ErrorCode::kBadInput,
          "{}: the mask is token {}, wanted one of the {} of the vocabulary", config.name,
          config.mask_id, config.vocab);
  require(config.norm_epsilon > 0 && config.norm_epsilon < 1, ErrorCode::kBadInput,
          "{}: the norm epsilon is {}, wanted a number between 0 and 1", config.name,
          config.norm_epsilon);
  require(config.rope_theta > 0 && config.rope_theta < 1e18, ErrorCode::kBadInput,
          "{}: the base of rotary positions is {}, wanted a positive number", config.name,
          config.rope_theta);
  validate_scaling(config);
  require(config.initializer_range >= 0 && config.initializer_range < 1e3, ErrorCode::kBadInput,
          "{}: the initializer range is {}, wanted zero or a positive number", config.name,
          config.initializer_range);
  importers::require_share(config.name, "residual dropout", config.residual_dropout);
  importers::require_share(config.name, "embedding dropout", config.embedding_dropout);
  importers::require_share(config.name, "label smoothing", config.label_smoothing);
  validate_experts(config);
}

}  // namespace sextant
