// Parameters and FLOPs of a model, from its sizes alone.
#include "models/model.h"

namespace sextant {
namespace {

std::int64_t query_width(const ModelConfig& config) { return config.heads * config.head_size; }
std::int64_t kv_width(const ModelConfig& config) { return config.kv_heads * config.head_size; }

// Weights that tokens of one layer are multiplied with.
std::int64_t layer_matmul_parameters(const ModelConfig& config) {
  const std::int64_t attention =
      config.hidden * (2 * query_width(config) + 2 * kv_width(config));  // q, o; k, v
  const std::int64_t matrices = config.mlp == ModelConfig::Mlp::kSwiGlu ? 3 : 2;
  return attention + matrices * config.hidden * config.ffn;
}

std::int64_t layer_bias_parameters(const ModelConfig& config) {
  std::int64_t count = 0;
  if (config.attention_bias) count += query_width(config) + 2 * kv_width(config);
  if (config.output_bias) count += config.hidden;
  if (config.mlp_bias)
    count += config.hidden + config.ffn * (config.mlp == ModelConfig::Mlp::kSwiGlu ? 2 : 1);
  return count;
}

std::int64_t norm_parameters(const ModelConfig& config) {
  return config.norm == ModelConfig::Norm::kLayerNorm ? 2 * config.hidden : config.hidden;
}

// 6 FLOPs per weight and token: one multiply-add forward, two backward.
double matmul_flops_per_token(const ModelConfig& config) {
  const std::int64_t head = config.vocab * config.hidden;
  return 6.0 * static_cast<double>(config.layers * layer_matmul_parameters(config) + head);
}

// Scores and their product with the values, of `keys` keys on average: 2 multiply-adds per key and
// channel forward, twice that backward.
double attention_flops_per_token(const ModelConfig& config, double keys) {
  return 12.0 * static_cast<double>(config.layers * query_width(config)) * keys;
}

}  // namespace

std::int64_t count_parameters(const ModelConfig& config) {
  std::int64_t per_layer =
      layer_matmul_parameters(config) + layer_bias_parameters(config) + 2 * norm_parameters(config);
  if (config.qk_norm) per_layer += 2 * config.head_size;
  std::int64_t count = config.layers * per_layer + norm_parameters(config);
  count += config.vocab * config.hidden * (config.tied_embeddings ? 1 : 2);
  if (config.positions == ModelConfig::Positions::kLearned)
    count += config.sequence * config.hidden;
  return count;
}

double model_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  // Causal: a token sees half of the sequence on average.
  return matmul_flops_per_token(config) +
         attention_flops_per_token(config, static_cast<double>(sequence) / 2);
}

double megatron_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  return matmul_flops_per_token(config) +
         attention_flops_per_token(config, static_cast<double>(sequence));
}

}  // namespace sextant
