// Model files -> logical graphs. One importer per file; what is not understood is refused by name.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/operators/layers/rotary.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sextant {

// Places per expert of a model that says nothing of a capacity, as a multiple of the even share
// tokens x top_k / experts. Such a model is trained with products over groups of any size, whose
// rows follow the routing; what is planned has places, and so needs a number. 1.25 is the capacity
// that Switch Transformer (Fedus et al. 2021) and ST-MoE (Zoph et al. 2022) train with; balanced
// routing alone would be 1 (Megatron-LM's benchmarks force it).
inline constexpr double kPlannedCapacity = 1.25;

// The transformers this version builds: decoders in the style of GPT-2 and of Llama and encoders in
// that of BERT are settings of one description, so that Qwen, Mistral ... are only values.
struct ModelConfig {
  std::string name;
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, head_size = 0;
  std::int64_t ffn = 0, vocab = 0;
  std::int64_t sequence = 0;  // default sequence length (= max positions)
  // Mixture of experts: every MLP is `experts` of them, each token takes `top_k`; 0: one for all.
  std::int64_t experts = 0, top_k = 0;
  // Room of an expert for the tokens of one sample, as a multiple of the even share; what finds no
  // room is dropped. Nothing: the model drops none, and is planned with kPlannedCapacity.
  std::optional<double> capacity_factor;
  bool normalized_experts = true;  // the weights of a token's experts add up to 1
  enum class Norm : std::uint8_t { kLayerNorm, kRmsNorm } norm = Norm::kLayerNorm;
  enum class Mlp : std::uint8_t { kGelu, kSwiGlu } mlp = Mlp::kGelu;
  enum class Positions : std::uint8_t { kLearned, kRotary } positions = Positions::kLearned;
  bool attention_bias = true;  // q, k, v
  bool output_bias = true;     // o
  bool mlp_bias = true;
  bool qk_norm = false;
  bool tied_embeddings = true;
  bool exact_gelu = false;  // erf; otherwise the tanh approximation of GPT-2
  // An encoder: every token sees the whole sequence, and labels are of tokens that were masked.
  bool causal = true;
  bool post_norm = false;  // norms behind the sums of the residual stream, none before the head
  bool embedding_norm = false;  // a norm of the embeddings with their positions
  bool head_transform = false;  // hidden x hidden, GELU and norm before the head
  bool head_bias = false;       // of the logits
  // Rows of the table of token types, whose first is added to every token: a sequence is one
  // segment. 0: no table.
  std::int64_t token_types = 0;
  std::int64_t mask_id = 0;  // of an encoder: the token that hides others from it
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  RotaryScaling rope_scaling = {};
  double initializer_range = 0.02;
  double residual_dropout = 0.0;   // of what attention and MLP add to the residual stream
  double embedding_dropout = 0.0;  // of embeddings with their positions
  double label_smoothing = 0.0;    // share of every label that is spread over the whole vocabulary
  // What was read and has no effect, and what was left out and assumed: said to the user.
  std::vector<std::string> notes;
  bool operator==(const ModelConfig&) const = default;
};

// MODEL: an existing file (HF config.json or our own JSON), a built-in name, or "gpt:layers=..".
// File and built-in take other values, "config.json:layers=4". Throws Error(kBadInput | kUsage):
// missing file, JSON error with line and column, family not supported with its name, unknown
// built-in with the nearest.
ModelConfig load_model(std::string_view model);
std::vector<std::string> builtin_model_names();

// Canonical JSON of a config and back; what plan files carry. Notes are not part of it. `origin`
// names the text in errors.
std::string to_json_text(const ModelConfig& config);
ModelConfig model_config_from_json(std::string_view text, std::string_view origin = "model");

// Throws Error(kBadInput) naming the value: sizes below one, heads that key/value heads do not
// divide, an odd head size under rotary positions, biases of experts.
void validate(const ModelConfig& config);

// Places that an expert has for the tokens of one sample: the same on every device, whatever it
// holds. More than there are tokens are only where the factor asks for them.
std::int64_t places_per_expert(const ModelConfig& config, std::int64_t sequence);
// What is assumed of them where the model does not say; nothing: it does, or has no experts.
std::optional<std::string> capacity_assumption(const ModelConfig& config);

// Parameters, counted once per logical element (tied heads once); and those that one token meets.
std::int64_t count_parameters(const ModelConfig& config);
std::int64_t count_active_parameters(const ModelConfig& config);
// Model FLOPs per token of forward + backward (00-product: 6 x matmul parameters plus attention of
// what a token sees), and the Megatron convention with full attention.
double model_flops_per_token(const ModelConfig& config, std::int64_t sequence);
double megatron_flops_per_token(const ModelConfig& config, std::int64_t sequence);

// Forward graph with loss for one micro-batch of `batch` sequences of `sequence` tokens: inputs
// `tokens` and `labels` [batch, sequence] i32. Layer 0 is the embedding, 1..L the blocks, L+1 the
// final norm or the transform of an encoder, head and loss.
//
// Names follow the layer: "layer3.attention.q". Weights are [in, out], the embedding and an untied
// head [vocab, hidden]. q, k, v are three matrices onto [batch, sequence, heads * head_size] and
// reshaped to [batch, sequence, heads, head_size]; gate and up are two matrices, so that no split
// cuts a fused weight. Parameters are f32 (f64 when `dtype` is) and cast where they are used.
//
// Experts: the tokens of a sample are a group that is routed by itself, so that no result depends
// on how a batch is split. dispatch makes [experts, batch, places, hidden]; the experts' weights
// are [experts, in, out].
LogicalGraph build_graph(const ModelConfig& config, std::int64_t batch, std::int64_t sequence,
                         DType dtype);

}  // namespace sextant
