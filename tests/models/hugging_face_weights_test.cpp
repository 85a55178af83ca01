// Names of weights: every parameter is somewhere, once, with all of its elements.
#include "models/hugging_face_weights.h"

#include "core/base/error.h"
#include "core/text/json_reader.h"
#include "models/importers.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace sextant::hugging_face_weights_test {
namespace {

constexpr const char* kModels[] = {"bert:layers=2,hidden=12,heads=3,vocab=31,seq=9",
                                   "bert:layers=1,hidden=12,heads=3,vocab=31,seq=9,tied=0",
                                   "gpt:layers=2,hidden=12,heads=3,vocab=31,seq=9",
                                   "gpt:layers=1,hidden=12,heads=3,vocab=31,seq=9,tied=0",
                                   "llama:layers=2,hidden=12,heads=6,kv_heads=2,vocab=31",
                                   "llama3.2-1b:layers=2",
                                   "mixtral-8x7b:layers=1,hidden=16,ffn=24,vocab=31",
                                   "qwen2.5-7b:layers=1",
                                   "qwen3-0.6b:layers=1"};

// Elements of a foreign tensor that are ours.
std::int64_t elements_of(const ForeignTensor& tensor, const Shape& own) {
  if (tensor.expert) return own.elements() / own[0];
  return tensor.first_column ? own.elements() : tensor.shape.elements();
}

TEST_CASE("every parameter has all of its elements in the files, and no tensor is taken twice") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    const ModelConfig config = load_model(model);
    const LogicalGraph graph = build_graph(config, 1, 4, DType::kF32);
    std::map<std::string, std::int64_t> missing;
    for (const LogicalOp& op : graph.ops())
      if (op.role == OperatorRole::kParameter)
        missing[op.name] = graph.tensor(op.outputs[0]).type.shape.elements();
    std::set<std::pair<std::string, std::int64_t>> taken;
    for (const ForeignTensor& tensor : hugging_face_weights(config).tensors) {
      CAPTURE(tensor.own);
      REQUIRE(missing.count(tensor.own) == 1);
      const Shape& own = graph.tensor(graph.output(*graph.find_op(tensor.own))).type.shape;
      missing[tensor.own] -= elements_of(tensor, own);
      CHECK(taken.emplace(tensor.names.front(), tensor.first_column.value_or(0)).second);
    }
    for (const auto& [name, elements] : missing) CHECK_MESSAGE(elements == 0, name);
  }
}

TEST_CASE("a config that is written reads back as the same model") {
  for (const std::string model : kModels) {
    CAPTURE(model);
    ModelConfig config = load_model(model);
    const JsonDocument document(hugging_face_config(config, DType::kBF16), "config.json");
    CHECK(document.root().at("torch_dtype").text() == "bfloat16");
    ModelConfig again = importers::from_hugging_face(document.root(), config.name);
    again.notes = config.notes;
    CHECK(again == config);
  }
}

TEST_CASE("names are those of the libraries") {
  const auto names = [](const char* model) {
    std::map<std::string, std::string> names;
    for (const ForeignTensor& tensor : hugging_face_weights(load_model(model)).tensors)
      names[tensor.own] = tensor.names.front();
    return names;
  };
  CHECK(names("gpt2-124m").at("layer12.attention.k.weight") ==
        "transformer.h.11.attn.c_attn.weight");
  CHECK(names("llama3.2-1b").at("layer1.mlp.norm.weight") ==
        "model.layers.0.post_attention_layernorm.weight");
  CHECK(names("llama3.2-1b").count("head.weight") == 0);
  CHECK(names("qwen3-0.6b").at("layer1.attention.k.norm.weight") ==
        "model.layers.0.self_attn.k_norm.weight");
  CHECK(names("mixtral-8x7b:layers=1").at("layer1.mlp.experts.down.weight") ==
        "model.layers.0.block_sparse_moe.experts.7.w2.weight");
  CHECK(names("bert-base").at("layer1.mlp.up.weight") ==
        "bert.encoder.layer.0.intermediate.dense.weight");
  const ForeignTensor norm = hugging_face_weights(load_model("bert-base")).tensors[3];
  CHECK(norm.names == std::vector<std::string>{
                          "bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.gamma",
                          "embeddings.LayerNorm.weight", "embeddings.LayerNorm.gamma"});
}

TEST_CASE("what no family computes has no names there") {
  ModelConfig config = load_model("gpt:layers=1,hidden=12,heads=3,experts=4");
  CHECK_THROWS_AS(hugging_face_weights(config), Error);
  config = load_model("llama:layers=1,hidden=12,heads=3");
  config.norm = ModelConfig::Norm::kLayerNorm;
  CHECK_THROWS_AS(hugging_face_config(config, DType::kF32), Error);
  // Each of these is a bias or a weight that the next family would lose or not normalise.
  const auto is_refused = [](const char* model, void (*change)(ModelConfig&)) {
    ModelConfig changed = load_model(model);
    change(changed);
    CHECK_THROWS_AS(hugging_face_weights(changed), Error);
  };
  is_refused("mixtral-8x7b", [](ModelConfig& c) { c.normalized_experts = false; });
  is_refused("mixtral-8x7b", [](ModelConfig& c) { c.attention_bias = true; });
  is_refused("qwen3-0.6b", [](ModelConfig& c) { c.mlp_bias = true; });
  is_refused("qwen3-0.6b", [](ModelConfig& c) { c.attention_bias = true; });
  is_refused("llama2-7b", [](ModelConfig& c) { c.output_bias = true; });
  is_refused("qwen2.5-7b", [](ModelConfig& c) { c.mlp_bias = true; });
}

}  // namespace
}  // namespace sextant::hugging_face_weights_test
