// Parameters and FLOPs of a model, from its sizes alone.
#include "models/model.h"

namespace sextant {
namespace {

std::int64_t query_width(const ModelConfig& config) { return config.heads * config.head_size; }
std::int64_t kv_width(const ModelConfig& config) { return config.kv_heads * config.head_size; }

// Matrices of one layer when a token meets `experts` MLPs.
std::int64_t layer_matmul_parameters(const ModelConfig& config, std::int64_t experts) {
  const std::int64_t attention =
      config.hidden * (2 * query_width(config) + 2 * kv_width(config));  // q, o; k, v
  const std::int64_t matrices = config.mlp == ModelConfig::Mlp::kSwiGlu ? 3 : 2;
  const std::int64_t router = config.hidden * config.experts;
  return attention + router + experts * matrices * config.hidden * config.ffn;
}

// MLPs of a layer, and those that one token meets.
std::int64_t num_mlps(const ModelConfig& config) { return config.experts > 0 ? config.experts : 1; }
std::int64_t num_active_mlps(const ModelConfig& config) {
  return config.experts > 0 ? config.top_k : 1;
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
  const std::int64_t transform = config.head_transform ? config.hidden * config.hidden : 0;
  const std::int64_t head = config.vocab * config.hidden + transform;
  const std::int64_t per_layer = layer_matmul_parameters(config, num_active_mlps(config));
  return 6.0 * static_cast<double>(config.layers * per_layer + head);
}

// Scores and their product with the values, of `keys` keys on average: 2 multiply-adds per key and
// channel forward, twice that backward.
double attention_flops_per_token(const ModelConfig& config, double keys) {
  return 12.0 * static_cast<double>(config.layers * query_width(config)) * keys;
}

// What stands before the first and behind the last block, but tables of tokens and positions.
std::int64_t edge_parameters(const ModelConfig& config) {
  std::int64_t count = config.token_types * config.hidden;
  if (config.embedding_norm) count += norm_parameters(config);
  if (!config.post_norm) count += norm_parameters(config);
  if (config.head_transform) count += config.hidden * (config.hidden + 1) + norm_parameters(config);
  if (config.head_bias) count += config.vocab;
  return count;
}

std::int64_t count(const ModelConfig& config, std::int64_t mlps) {
  std::int64_t per_layer = layer_matmul_parameters(config, mlps) + layer_bias_parameters(config) +
                           2 * norm_parameters(config);
  if (config.qk_norm) per_layer += 2 * config.head_size;
  std::int64_t count = config.layers * per_layer + edge_parameters(config);
  count += config.vocab * config.hidden * (config.tied_embeddings ? 1 : 2);
  if (config.positions == ModelConfig::Positions::kLearned)
    count += config.sequence * config.hidden;
  return count;
}

}  // namespace

std::int64_t count_parameters(const ModelConfig& config) { return count(config, num_mlps(config)); }

std::int64_t count_active_parameters(const ModelConfig& config) {
  return count(config, num_active_mlps(config));
}

double model_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  // Causal: a token sees half of the sequence on average.
  const double seen = config.causal ? 0.5 : 1;
  return matmul_flops_per_token(config) +
         attention_flops_per_token(config, seen * static_cast<double>(sequence));
}

double megatron_flops_per_token(const ModelConfig& config, std::int64_t sequence) {
  return matmul_flops_per_token(config) +
         attention_flops_per_token(config, static_cast<double>(sequence));
}

}  // namespace sextant
