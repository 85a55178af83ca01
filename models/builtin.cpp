// Built-in models, by published sizes.
#include "core/base/check.h"
#include "models/importers.h"

#include <array>

namespace sextant::importers {
namespace {

struct Gpt {
  std::string_view name;
  std::int64_t layers, hidden, heads, vocab, sequence;
};

// GPT-2: its repository's hyper-parameters. GPT-3: table 2.1 of arXiv 2005.14165 (13B: head size
// 128 and hidden 5120, as 40 heads need; the table prints 5140). The byte model is ours: small
// enough to train on a laptop.
constexpr std::array<Gpt, 9> kGpts = {{{"gpt-bytes-1m", 4, 144, 4, 256, 64},
                                       {"gpt2-124m", 12, 768, 12, 50257, 1024},
                                       {"gpt2-medium", 24, 1024, 16, 50257, 1024},
                                       {"gpt2-large", 36, 1280, 20, 50257, 1024},
                                       {"gpt2-xl", 48, 1600, 25, 50257, 1024},
                                       {"gpt3-1.3b", 24, 2048, 16, 50257, 2048},
                                       {"gpt3-6.7b", 32, 4096, 32, 50257, 2048},
                                       {"gpt3-13b", 40, 5120, 40, 50257, 2048},
                                       {"gpt3-175b", 96, 12288, 96, 50257, 2048}}};

struct Llama {
  std::string_view name;
  std::int64_t layers, hidden, heads, kv_heads, head_size, ffn, vocab, sequence;
  double rope_theta, epsilon;
  bool tied = false, qkv_bias = false, qk_norm = false;
  std::int64_t experts = 0, top_k = 0;
};

// From the models' published configs.
constexpr std::array<Llama, 12> kLlamas = {
    {{"llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096, 1e4, 1e-5},
     {"llama2-13b", 40, 5120, 40, 40, 128, 13824, 32000, 4096, 1e4, 1e-5},
     {"llama2-70b", 80, 8192, 64, 8, 128, 28672, 32000, 4096, 1e4, 1e-5},
     {"llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192, 5e5, 1e-5},
     {"llama3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 8192, 5e5, 1e-5},
     {"llama3-405b", 126, 16384, 128, 8, 128, 53248, 128256, 8192, 5e5, 1e-5},
     {"llama3.2-1b", 16, 2048, 32, 8, 64, 8192, 128256, 8192, 5e5, 1e-5, true},
     {"mistral-7b", 32, 4096, 32, 8, 128, 14336, 32768, 32768, 1e6, 1e-5},
     {"mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, 32768, 1e6, 1e-5, false, false, false, 8,
      2},
     {"qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 1e6, 1e-6, false, true},
     {"qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 32768, 1e6, 1e-6, true, false, true},
     {"qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, 32768, 1e6, 1e-6, true, false, true}}};

// Of one head size for queries, keys and values, and an MLP four times as wide.
void set_sizes(ModelConfig& config, std::string_view name, std::int64_t layers, std::int64_t hidden,
               std::int64_t heads) {
  config.name = name;
  config.layers = layers;
  config.hidden = hidden;
  config.heads = config.kv_heads = heads;
  config.head_size = hidden / heads;
  config.ffn = 4 * hidden;
}

ModelConfig config_of(const Gpt& gpt) {
  ModelConfig config = gpt2_family();
  set_sizes(config, gpt.name, gpt.layers, gpt.hidden, gpt.heads);
  config.vocab = gpt.vocab;
  config.sequence = gpt.sequence;
  return config;
}

ModelConfig config_of(const Llama& llama) {
  ModelConfig config = llama_family();
  config.name = llama.name;
  config.layers = llama.layers;
  config.hidden = llama.hidden;
  config.heads = llama.heads;
  config.kv_heads = llama.kv_heads;
  config.head_size = llama.head_size;
  config.ffn = llama.ffn;
  config.vocab = llama.vocab;
  config.sequence = llama.sequence;
  config.rope_theta = llama.rope_theta;
  config.norm_epsilon = llama.epsilon;
  config.tied_embeddings = llama.tied;
  config.attention_bias = llama.qkv_bias;
  config.qk_norm = llama.qk_norm;
  config.experts = llama.experts;
  config.top_k = llama.top_k;
  return config;
}

struct Bert {
  std::string_view name;
  std::int64_t layers, hidden, heads;
};

// The uncased models of google-research/bert (arXiv 1810.04805).
constexpr std::array<Bert, 2> kBerts = {{{"bert-base", 12, 768, 12}, {"bert-large", 24, 1024, 16}}};

ModelConfig config_of(const Bert& bert) {
  ModelConfig config = bert_family();
  set_sizes(config, bert.name, bert.layers, bert.hidden, bert.heads);
  config.vocab = 30522;
  config.sequence = 512;
  return config;
}

}  // namespace

ModelConfig gpt2_family() { return {}; }

ModelConfig bert_family() {
  ModelConfig config;
  config.exact_gelu = true;
  config.causal = false;
  config.post_norm = config.embedding_norm = true;
  config.head_transform = config.head_bias = true;
  config.token_types = 2;
  config.mask_id = 103;  // [MASK] of the uncased and of the cased vocabulary
  config.norm_epsilon = 1e-12;
  return config;
}

ModelConfig llama_family() {
  ModelConfig config;
  config.norm = ModelConfig::Norm::kRmsNorm;
  config.mlp = ModelConfig::Mlp::kSwiGlu;
  config.positions = ModelConfig::Positions::kRotary;
  config.attention_bias = config.output_bias = config.mlp_bias = false;
  config.tied_embeddings = false;
  return config;
}

std::int64_t llama_ffn(std::int64_t hidden) { return ((8 * hidden + 2) / 3 + 255) / 256 * 256; }

std::optional<ModelConfig> builtin(std::string_view name) {
  for (const Gpt& gpt : kGpts)
    if (gpt.name == name) return config_of(gpt);
  for (const Llama& llama : kLlamas)
    if (llama.name == name) return config_of(llama);
  for (const Bert& bert : kBerts)
    if (bert.name == name) return config_of(bert);
  return std::nullopt;
}

}  // namespace sextant::importers

namespace sextant {

std::vector<std::string> builtin_model_names() {
  std::vector<std::string> names;
  for (const auto& gpt : importers::kGpts) names.emplace_back(gpt.name);
  for (const auto& llama : importers::kLlamas) names.emplace_back(llama.name);
  for (const auto& bert : importers::kBerts) names.emplace_back(bert.name);
  return names;
}

}  // namespace sextant
