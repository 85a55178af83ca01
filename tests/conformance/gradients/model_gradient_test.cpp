// Every parameter of whole models of every architecture, in small, against central
// differences: the model builder, autodiff and every rule together.
#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/face_net.h"
#include "models/model.h"
#include "models/wide_deep.h"
#include "tests/conformance/gradients/gradient_check.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

namespace sextant::model_gradient_test {
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

ModelConfig small_bert() {
  ModelConfig config = small_gpt();
  config.name = "small-bert";
  config.causal = false;
  config.post_norm = config.embedding_norm = config.head_transform = config.head_bias = true;
  config.exact_gelu = true;
  config.token_types = 3;
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
Problem problem_of(LogicalGraph graph) {
  Problem problem{.graph = std::move(graph), .values = {}};
  for (const LogicalOp& op : problem.graph.ops()) {
    if (op.kind != "parameter" && op.kind != "input") continue;
    const TensorId tensor = op.outputs[0];
    const std::int64_t count = problem.graph.tensor(tensor).type.shape.elements();
    const CounterRng rng(3, op.name);
    problem.values[tensor] =
        op.attributes.contains("limit")
            ? random_integers(rng, count, 0, op.attributes.integer("limit") - 1)
            : random_values(rng, count, -0.7, 0.7);
  }
  return problem;
}

Problem problem_of(const ModelConfig& config) {
  return problem_of(build_graph(config, 2, 5, DType::kF64));
}

TEST_CASE("every parameter of a small GPT has the gradient of its loss") {
  CHECK(check_gradients(problem_of(small_gpt()), 12) > 0.1);
}

TEST_CASE("every parameter of a small Llama has the gradient of its loss") {
  CHECK(check_gradients(problem_of(small_llama()), 12) > 0.1);
}

TEST_CASE("every parameter of a small BERT has the gradient of its loss") {
  CHECK(check_gradients(problem_of(small_bert()), 12) > 0.1);
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

// Odd images, a group that halves them, both ways of the shortcut.
ConvNetConfig small_conv_net(bool bottleneck) {
  return {.name = "small-conv",
          .image_channels = 2,
          .height = 7,
          .width = 9,
          .classes = 5,
          .stem_channels = 3,
          .stem_kernel = 3,
          .stem_stride = 1,
          .bottleneck = bottleneck,
          .blocks = {1, 2},
          .channels = {3, 2}};
}

TEST_CASE("every parameter of a small conv net has the gradient of its loss") {
  for (const bool bottleneck : {false, true})
    CHECK(check_gradients(problem_of(build_graph(small_conv_net(bottleneck), 3, DType::kF64)), 6) >
          0.1);
}

FaceNetConfig small_face_net(bool is_mobile, std::int64_t sampled) {
  FaceNetConfig config{.name = "small-face",
                       .image_channels = 2,
                       .height = 8,
                       .width = 8,
                       .stem_channels = 3,
                       .stem_depthwise = is_mobile,
                       .blocks = {1, 2},
                       .channels = {3, 4},
                       .strides = {2, 2},
                       .expansions = {},
                       .features = 5,
                       .classes = 12,
                       .sampled = sampled,
                       .buckets = 3,
                       // Norms over few values bend the loss more than a difference follows.
                       .norm_epsilon = 0.5,
                       .initializer_range = 0.5};
  if (is_mobile) {
    config.expansions = {2, 1};
    config.last_channels = 6;
  }
  return config;
}

TEST_CASE("every parameter of a small net of faces has the gradient of its loss") {
  for (const bool is_mobile : {false, true})
    CHECK(check_gradients(problem_of(build_graph(small_face_net(is_mobile, 0), 5, DType::kF64)),
                          4) > 0.1);
  // Of a sample the classes of the labels and others; rows that nobody took have no gradient.
  CHECK(check_gradients(problem_of(build_graph(small_face_net(false, 9), 5, DType::kF64)), 4) >
        0.1);
}

TEST_CASE("every parameter of a small wide and deep model has the gradient of its loss") {
  const WideDeepConfig config{.name = "small-wide-deep",
                              .wide_fields = 2,
                              .wide_vocab = 5,
                              .deep_fields = 3,
                              .deep_vocab = 7,
                              .embedding = 3,
                              .dense = 5,
                              .hidden = {7, 5, 3}};
  CHECK(check_gradients(problem_of(build_graph(config, 5, DType::kF64)), 12) > 0.1);
}

TEST_CASE("every parameter of a small classifier has the gradient of its loss") {
  const ClassHeadConfig config{.name = "small-classifier",
                               .features = 5,
                               .hidden = {7, 3},
                               .classes = 11,
                               .label_smoothing = 0.1};
  CHECK(check_gradients(problem_of(build_graph(config, 5, DType::kF64)), 12) > 0.1);
}

TEST_CASE("smoothed labels and their gradients belong together") {
  ModelConfig smoothed = small_gpt();
  smoothed.label_smoothing = 0.2;
  CHECK(check_gradients(problem_of(smoothed), 12) > 0.1);
}

}  // namespace
}  // namespace sextant::model_gradient_test
