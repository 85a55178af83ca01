// Every parameter of a whole GPT, a whole Llama and one with experts, in small, against central
// differences: the model builder, autodiff and every rule together.
#include "models/model.h"
#include "tests/conformance/gradient_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace sextant {
namespace {

// Odd extents wherever the architecture lets them be odd.
ModelConfig small_gpt() {
  ModelConfig config;
  config.name = "small-gpt";
  config.layers = 2;
  config.hidden = 6;
  config.heads = 3;
  config.kv_heads = 3;
  config.head_size = 2;
  config.ffn = 7;
  config.vocab = 11;
  config.sequence = 7;
  return config;
}

ModelConfig small_llama() {
  ModelConfig config = small_gpt();
  config.name = "small-llama";
  config.heads = 4;
  config.kv_heads = 2;
  config.norm = ModelConfig::Norm::kRmsNorm;
  config.mlp = ModelConfig::Mlp::kSwiGlu;
  config.positions = ModelConfig::Positions::kRotary;
  config.attention_bias = config.output_bias = config.mlp_bias = false;
  config.qk_norm = true;
  config.tied_embeddings = false;
  config.rope_theta = 100.0;
  return config;
}

// Less room than there may be tokens, so that some find none.
ModelConfig small_experts() {
  ModelConfig config = small_llama();
  config.name = "small-experts";
  config.experts = 3;
  config.top_k = 2;
  config.capacity_factor = 0.9;
  return config;
}

// Weights of order one, so that every operator works away from its linear range.
Problem problem_of(const ModelConfig& config) {
  Problem problem{.graph = build_graph(config, 2, 5, DType::kF64), .values = {}};
  for (const LogicalOp& op : problem.graph.ops()) {
    if (op.kind != "parameter" && op.kind != "input") continue;
    const TensorId tensor = op.outputs[0];
    const std::int64_t count = problem.graph.tensor(tensor).type.shape.elements();
    const CounterRng rng(3, op.name);
    problem.values[tensor] = op.kind == "input" ? random_integers(rng, count, 0, config.vocab - 1)
                                                : random_values(rng, count, -0.7, 0.7);
  }
  return problem;
}

TEST_CASE("every parameter of a small GPT has the gradient of its loss") {
  CHECK(check_gradients(problem_of(small_gpt()), 12) > 0.1);
}

TEST_CASE("every parameter of a small Llama has the gradient of its loss") {
  CHECK(check_gradients(problem_of(small_llama()), 12) > 0.1);
}

TEST_CASE("every parameter of a small model with experts has the gradient of its loss") {
  // ceil(0.9 * 5 * 2 / 3) = 3 places for what may be 5 tokens.
  CHECK(places_per_expert(small_experts(), 5) == 3);
  CHECK(check_gradients(problem_of(small_experts()), 12) > 0.1);
  ModelConfig roomy = small_experts();
  roomy.capacity_factor.reset();
  roomy.normalized_experts = false;
  CHECK(check_gradients(problem_of(roomy), 12) > 0.1);
}

TEST_CASE("smoothed labels and their gradients belong together") {
  ModelConfig smoothed = small_gpt();
  smoothed.label_smoothing = 0.2;
  CHECK(check_gradients(problem_of(smoothed), 12) > 0.1);
}

}  // namespace
}  // namespace sextant
