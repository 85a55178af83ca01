// Extents that no power of two divides evenly; batches are the plan's.
#include "tests/conformance/law/law_models.h"

#include "core/base/check.h"
#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/wide_deep.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace sextant {
namespace {

// Some weights of every model are large enough for ZeRO to split them, some are not.
struct Extents {
  std::int64_t heads, kv_heads, head_size, ffn, vocab;
};

ModelConfig sized(ModelConfig config, int layers, const Extents& extents) {
  config.layers = layers;
  config.heads = extents.heads;
  config.kv_heads = extents.kv_heads;
  config.head_size = extents.head_size;
  config.hidden = extents.heads * extents.head_size;
  config.ffn = extents.ffn;
  config.vocab = extents.vocab;
  return config;
}

// Gpt3, bert3 and moe3 see six places, which the two or three parts of a ring divide; others see
// five.
LawModel transformer(const std::string& name, const ModelConfig& config) {
  const std::int64_t sequence = name == "gpt3" || name == "bert3" || name == "moe3" ? 6 : 5;
  return {.name = name,
          .build = [config, sequence](
                       std::int64_t samples,
                       DType dtype) { return build_graph(config, samples, sequence, dtype); },
          .blocks = static_cast<int>(config.layers),
          .heads = config.heads,
          .groups = config.kv_heads,
          .has_attention = true,
          .sequence = sequence};
}

// Two of four experts per token; with a factor some tokens find no place.
LawModel experts(const std::string& name, int layers, std::optional<double> capacity_factor) {
  ModelConfig config = sized(tiny_llama(), layers, {4, 2, 4, 13, 29});
  config.experts = 4;
  config.top_k = 2;
  config.capacity_factor = capacity_factor;
  LawModel model = transformer(name, config);
  model.has_experts = true;
  return model;
}

// What is dropped depends on the place in the micro-batch.
LawModel dropout(const std::string& name, int layers) {
  ModelConfig config = sized(tiny_gpt(), layers, {4, 4, 3, 13, 89});
  config.residual_dropout = 0.2;
  config.embedding_dropout = 0.1;
  config.label_smoothing = 0.1;
  LawModel model = transformer(name, config);
  model.depends_on_micro_batch = true;
  return model;
}

template <typename Config>
LawModel without_attention(const Config& config, int blocks) {
  return {.name = config.name,
          .build = [config](std::int64_t samples,
                            DType dtype) { return build_graph(config, samples, dtype); },
          .blocks = blocks,
          .has_kinks = true};
}

// Batch norm: the statistics are those of a micro-batch.
LawModel conv_net(const std::string& name, std::vector<std::int64_t> blocks, bool bottleneck) {
  const int num_blocks = static_cast<int>(std::accumulate(blocks.begin(), blocks.end(), 0));
  LawModel model = without_attention(ConvNetConfig{.name = name,
                                                   .image_channels = 2,
                                                   .height = 7,
                                                   .width = 5,
                                                   .classes = 5,
                                                   .stem_channels = 3,
                                                   .stem_kernel = 3,
                                                   .stem_stride = 1,
                                                   .bottleneck = bottleneck,
                                                   .blocks = std::move(blocks),
                                                   .channels = {3, 5},
                                                   // Channels of a dozen values, some all zero
                                                   // behind relu: with 1e-5 each norm would
                                                   // magnify rounding by 300.
                                                   .norm_epsilon = 0.1},
                                     num_blocks);
  model.depends_on_micro_batch = true;
  return model;
}

// With `twins` the ids of both sides differ in nothing but their names: one block may serve both.
LawModel wide_deep(const std::string& name, std::vector<std::int64_t> hidden, bool twins) {
  const int blocks = static_cast<int>(hidden.size());
  return without_attention(WideDeepConfig{.name = name,
                                          .wide_fields = twins ? 3 : 2,
                                          .wide_vocab = twins ? 401 : 11,
                                          .deep_fields = 3,
                                          .deep_vocab = 401,
                                          .embedding = 3,
                                          .dense = 5,
                                          .hidden = std::move(hidden),
                                          .initializer_range = 0.3},
                           blocks);
}

LawModel class_head(const std::string& name, std::vector<std::int64_t> hidden) {
  const int blocks = static_cast<int>(hidden.size());
  return without_attention(ClassHeadConfig{.name = name,
                                           .features = 5,
                                           .hidden = std::move(hidden),
                                           .classes = 211,
                                           .initializer_range = 0.3},
                           blocks);
}

std::vector<LawModel> all_models() {
  return {transformer("gpt2", sized(tiny_gpt(), 2, {6, 6, 3, 61, 59})),
          transformer("gpt3", sized(tiny_gpt(), 3, {4, 4, 3, 87, 11})),
          transformer("gpt4", sized(tiny_gpt(), 4, {3, 3, 5, 13, 97})),
          transformer("llama2", sized(tiny_llama(), 2, {8, 4, 2, 65, 11})),
          transformer("llama3", sized(tiny_llama(), 3, {4, 2, 2, 13, 87})),
          transformer("llama4", sized(tiny_llama(), 4, {6, 3, 2, 89, 23})),
          transformer("bert2", sized(tiny_bert(), 2, {6, 6, 3, 61, 59})),
          transformer("bert3", sized(tiny_bert(), 3, {4, 4, 3, 13, 87})),
          experts("moe2", 2, std::nullopt),
          experts("moe3", 3, 1.0),
          dropout("dropout2", 2),
          dropout("dropout3", 3),
          conv_net("conv2", {1, 1}, false),
          conv_net("conv3", {1, 2}, true),
          wide_deep("wide3", {7, 5, 3}, false),
          wide_deep("wide4", {7, 5, 5, 3}, true),
          class_head("classes2", {7, 5}),
          class_head("classes3", {7, 3, 5})};
}

}  // namespace

const std::vector<LawModel>& law_models() {
  static const std::vector<LawModel> models = all_models();
  return models;
}

const LawModel& law_model(std::string_view name) {
  std::string names;
  for (const LawModel& model : law_models()) {
    if (model.name == name) return model;
    names += " " + model.name;
  }
  fail(ErrorCode::kUsage, "no model '{}' of the law, there are{}", name, names);
}

}  // namespace sextant
