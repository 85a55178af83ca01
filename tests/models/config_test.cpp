// Model configs: built-ins, one word, our own JSON, and the counts that follow from sizes.
#include "core/base/error.h"
#include "models/model.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace sextant::config_test {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

std::string refusal(std::string_view model) {
  try {
    load_model(model);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("parameters of built-ins are the published ones") {
  // GPT-2 and GPT-3, h hidden, L layers, 12 h^2 + 13 h per layer, 2 h for the last norm, V h + s h
  // for the embeddings. 124M: 12 (12 * 768^2 + 13 * 768) + 2 * 768 + (50257 + 1024) * 768.
  CHECK(count_parameters(load_model("gpt2-124m")) == 124'439'808);
  CHECK(count_parameters(load_model("gpt2-medium")) == 354'823'168);
  CHECK(count_parameters(load_model("gpt2-large")) == 774'030'080);
  CHECK(count_parameters(load_model("gpt2-xl")) == 1'557'611'200);
  // 96 (12 * 12288^2 + 13 * 12288) + 2 * 12288 + (50257 + 2048) * 12288.
  CHECK(count_parameters(load_model("gpt3-175b")) == 174'604'259'328);
  CHECK(count_parameters(load_model("llama2-7b")) == 6'738'415'616);
  CHECK(count_parameters(load_model("llama2-13b")) == 13'015'864'320);
  CHECK(count_parameters(load_model("llama2-70b")) == 68'976'648'192);
  CHECK(count_parameters(load_model("llama3-8b")) == 8'030'261'248);
  CHECK(count_parameters(load_model("llama3-70b")) == 70'553'706'496);
  CHECK(count_parameters(load_model("llama3-405b")) == 405'853'388'800);
  CHECK(count_parameters(load_model("llama3.2-1b")) == 1'235'814'400);
  CHECK(count_parameters(load_model("mistral-7b")) == 7'248'023'552);
  CHECK(count_parameters(load_model("qwen2.5-7b")) == 7'615'616'512);
  CHECK(count_parameters(load_model("qwen3-0.6b")) == 596'049'920);
  CHECK(count_parameters(load_model("qwen3-4b")) == 4'022'468'096);
  CHECK(count_parameters(load_model("mixtral-8x7b")) == 46'702'792'704);
  // The encoder of BERT (12 layers of 7,087,872, embeddings 23,837,184) and its head of masked
  // tokens: h^2 + h, 2 h and a bias per token.
  CHECK(count_parameters(load_model("bert-base")) == 109'514'298);
  CHECK(count_parameters(load_model("bert-large")) == 335'174'458);
  // Two of eight experts: 32 * 6 * 3 * 4096 * 14336 less.
  CHECK(count_active_parameters(load_model("mixtral-8x7b")) ==
        46'702'792'704 - 32 * 6 * 3 * 4096LL * 14336);
}

TEST_CASE("every built-in is valid and reads back from its own JSON") {
  const std::vector<std::string> names = builtin_model_names();
  CHECK(names.size() == 23);
  for (const std::string& name : names) {
    const ModelConfig config = load_model(name);
    CHECK(config.name == name);
    CHECK_NOTHROW(validate(config));
    CHECK(model_config_from_json(to_json_text(config)) == config);
  }
}

TEST_CASE("a shape in one word takes defaults and names them") {
  const ModelConfig gpt = load_model("gpt:layers=40,hidden=6144,heads=48,vocab=51200,seq=2048");
  CHECK(gpt.head_size == 128);
  CHECK(gpt.ffn == 4 * 6144);
  CHECK(gpt.sequence == 2048);
  CHECK(gpt.tied_embeddings);
  REQUIRE(gpt.notes.size() == 1);
  CHECK(gpt.notes[0] == "left out and assumed: kv_heads=48 head_size=128 ffn=24576 tied=1");
  // 18.4 B of the Megatron-LM papers: 40 (12 h^2 + 13 h) + 2 h + (51200 + 2048) h with h = 6144.
  CHECK(count_parameters(gpt) == 40 * (12 * 6144LL * 6144 + 13 * 6144) + 2 * 6144 + 53248LL * 6144);
  // 8/3 of 4096 is 10922.7, the next multiple of 256 is 11008: Llama 2 7B.
  const ModelConfig llama = load_model("llama:layers=32,hidden=4096,heads=32");
  CHECK(count_parameters(llama) == 6'738'415'616);
  CHECK(load_model("llama:layers=1,hidden=96,heads=4,kv_heads=2,head_size=16").head_size == 16);
}

TEST_CASE("one word gives experts, and changes values of a built-in") {
  const ModelConfig moe =
      load_model("llama:layers=2,hidden=8,heads=2,experts=4,top_k=3,capacity_factor=1.25");
  CHECK(moe.experts == 4);
  CHECK(moe.top_k == 3);
  CHECK(moe.capacity_factor == 1.25);
  CHECK(model_config_from_json(to_json_text(moe)).capacity_factor == 1.25);
  // Two of the experts unless it is said; a router of single experts needs their probabilities.
  CHECK(load_model("llama:layers=2,hidden=8,heads=2,experts=4").top_k == 2);
  CHECK_FALSE(load_model("llama:layers=2,hidden=8,heads=2,experts=4,top_k=1").normalized_experts);
  CHECK(load_model("gpt:layers=2,hidden=8,heads=2,experts=4").notes.front() ==
        "experts have no biases");
  const ModelConfig changed = load_model("mixtral-8x7b:layers=4,capacity_factor=1.5,dropout=0.1");
  CHECK(changed.layers == 4);
  CHECK(changed.hidden == 4096);
  CHECK(changed.top_k == 2);
  CHECK(changed.capacity_factor == 1.5);
  CHECK(changed.residual_dropout == 0.1);
  CHECK(changed.embedding_dropout == 0.1);
  CHECK(changed.name == "mixtral-8x7b:layers=4,capacity_factor=1.5,dropout=0.1");
  CHECK(load_model("gpt2-124m:label_smoothing=0.1").label_smoothing == 0.1);
}

TEST_CASE("a file takes other values as a built-in does") {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / "sextant-config-test";
  std::filesystem::create_directories(folder / "of: colons");
  const std::string file = (folder / "of: colons" / "config.json").string();
  std::ofstream(file) << to_json_text(load_model("mixtral-8x7b"));
  ModelConfig expected = load_model("mixtral-8x7b:layers=4,capacity_factor=2");
  for (const std::string& path : {file, (folder / "of: colons").string()}) {
    const ModelConfig changed = load_model(path + ":layers=4,capacity_factor=2");
    expected.name = changed.name;
    CHECK(changed == expected);
    CHECK(contains(changed.name, ":layers=4,capacity_factor=2"));
    CHECK(load_model(path).layers == 32);
    CHECK(contains(refusal(path + ":layer=4"), "layer"));
    CHECK(contains(refusal(path + ":layers=0"), "layers"));
  }
  CHECK(contains(refusal(file + "x:layers=4"), "no such file"));
  CHECK(contains(refusal(file + ":layers"), "key=value"));
  CHECK(contains(refusal("nowhere.json:layers=4"), "no such file"));
  // A folder comes before a family of its name, with values as without, where it is a model's.
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);
  std::filesystem::create_directories("gpt2-124m");
  CHECK(load_model("gpt2-124m:layers=2").hidden == 768);
  std::ofstream("gpt2-124m/config.json") << to_json_text(load_model("mixtral-8x7b"));
  CHECK(load_model("gpt2-124m:layers=2").hidden == 4096);
  std::filesystem::current_path(before);
  std::filesystem::remove_all(folder);
}

TEST_CASE("one word gives an encoder and its mask, which no decoder has") {
  const ModelConfig bert = load_model("bert:layers=2,hidden=64,heads=4,vocab=256,seq=32");
  CHECK_FALSE(bert.causal);
  CHECK(bert.mask_id == 0);
  CHECK(load_model("bert-base").mask_id == 103);
  CHECK(load_model("bert-base:layers=2,mask=7").mask_id == 7);
  CHECK(contains(refusal("gpt:layers=2,hidden=64,heads=4,mask=7"), "mask is for models of masked"));
  CHECK(contains(refusal("bert:layers=2,hidden=64,heads=4,vocab=9,mask=9"),
                 "the mask is token 9, wanted one of the 9"));
}

TEST_CASE("experts that cannot be are refused") {
  const std::string base = "llama:layers=2,hidden=8,heads=2,";
  CHECK(contains(refusal(base + "experts=2,top_k=3"), "top_k is 3, wanted 1 to 2"));
  CHECK(contains(refusal(base + "experts=2,capacity_factor=0"), "capacity factor is 0"));
  CHECK(contains(refusal(base + "experts=2,capacity_factor=nan"), "=nan is not a number"));
  CHECK(contains(refusal(base + "capacity_factor=1"), "is for models with experts"));
  CHECK(contains(refusal(base + "dropout=1"), "residual dropout is 1, wanted 0 or more"));
  ModelConfig biased = load_model(base + "experts=2");
  biased.mlp_bias = true;
  CHECK_THROWS_WITH_AS(validate(biased), doctest::Contains("biases of experts"), Error);
}

TEST_CASE("an own JSON from before experts reads as a model without") {
  std::string text = to_json_text(load_model("gpt2-124m"));
  const std::size_t first = text.find(",\n \"experts\"");
  REQUIRE(first != std::string::npos);
  text.replace(first, text.rfind("\n}") - first, "");
  CHECK(model_config_from_json(text) == load_model("gpt2-124m"));
}

TEST_CASE("a mistake in one word is named") {
  CHECK(contains(refusal("gpt:layers=2,hidden=64"), "heads=... is missing"));
  CHECK(contains(refusal("gpt:layers=2,hidden=64,heads=4,vocabs=9"), "did you mean 'vocab'?"));
  CHECK(contains(refusal("gpt:layers=2,hidden=64,heads=4,layers=3"), "'layers' appears twice"));
  for (const char* word : {"gpt:layers=2,hidden=64,heads=4,", "gpt:,layers=2,hidden=64,heads=4",
                           "gpt:layers=,hidden=64,heads=4", "mixtral-8x7b:layers=2,,top_k=1"})
    CHECK(contains(refusal(word), "is not of the form key=value"));
  CHECK(contains(refusal("mixtral-8x7b:"), "nothing behind the colon"));
  CHECK(contains(refusal("gpt:layers=x,hidden=64,heads=4"), "layers=x is not a whole number"));
  CHECK(contains(refusal("gpt:layers=-1,hidden=64,heads=4"), "layers=-1 is not a whole number"));
  CHECK(contains(refusal("gpt:layers=0,hidden=64,heads=4"), "layers is 0, wanted 1 to"));
  CHECK(contains(refusal("gpt:layers=2,hidden=64,heads=0"), "must be at least 1"));
  CHECK(contains(refusal("gpt:layers=2,hidden=64,heads=5"), "5 heads do not divide"));
  CHECK(contains(refusal("gpt:layers=2,hidden=4,heads=8"), "8 heads are more than"));
  CHECK(contains(refusal("gpt:layers"), "'layers' is not of the form key=value"));
  CHECK(contains(refusal("llama:layers=2,hidden=64,heads=4,kv_heads=3"),
                 "4 heads cannot share 3 key/value heads evenly"));
  CHECK(contains(refusal("llama:layers=2,hidden=9,heads=3"), "even head size, got 3"));
}

TEST_CASE("an unknown model is refused with the nearest built-in") {
  CHECK(refusal("gpt3-175") ==
        "'gpt3-175' is no file and no built-in model, did you mean "
        "'gpt3-175b'?");
  CHECK(refusal("folder/none.json") == "folder/none.json: no such file");
  CHECK(refusal("banana") == "'banana' is no file and no built-in model");
}

TEST_CASE("FLOPs per token are 6 per matrix weight plus attention over what a token sees") {
  ModelConfig config = load_model("gpt:layers=2,hidden=8,heads=2,vocab=10,seq=4");
  // Weights: 2 layers * (4 * 8^2 + 2 * 8 * 32) = 1536, head 80. Attention, all keys: per layer 12 *
  // 8 * 4 = 384.
  CHECK(model_flops_per_token(config, 4) == 6.0 * (1536 + 80) + 2 * 384 / 2.0);
  CHECK(megatron_flops_per_token(config, 4) == 6.0 * (1536 + 80) + 2 * 384);
  // An encoder's tokens see all keys. Its head has a product of h^2 more: 80 + 64.
  const ModelConfig encoder = load_model("bert:layers=2,hidden=8,heads=2,vocab=10,seq=4");
  CHECK(model_flops_per_token(encoder, 4) == 6.0 * (1536 + 80 + 64) + 2 * 384);
  // arXiv 2205.05198: 72 s L h^2 (1 + s / (6 h) + V / (12 L h)) per sequence.
  config = load_model("gpt3-175b");
  const double s = 2048, l = 96, h = 12288, v = 50257;
  const double published = 72 * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  const double ours = megatron_flops_per_token(config, 2048) * s;
  // Equal up to the rounding of a handful of products.
  CHECK(std::abs(ours / published - 1) < 1e-12);
}

TEST_CASE("our own JSON is strict") {
  const std::string text = to_json_text(load_model("gpt2-124m"));
  const auto changed = [&](std::string_view from, std::string_view to) {
    std::string copy = text;
    copy.replace(copy.find(from), from.size(), to);
    try {
      model_config_from_json(copy, "m.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(changed("\"layers\": 12", "\"layers\": 0") ==
        "m.json: layers: found 0, wanted 1 to 1073741824");
  CHECK(changed("\"layers\"", "\"layer\"") ==
        "m.json: unknown key 'layer', did you mean 'layers'?");
  CHECK(changed("model/1", "model/2") ==
        "m.json: schema: found \"sextant.model/2\"; this program reads sextant.model/1");
  CHECK(changed("\"gelu\"", "\"relu\"") == "m.json: mlp: found \"relu\", wanted gelu or swiglu");
  CHECK(changed("\"kv_heads\": 12", "\"kv_heads\": 5") ==
        "gpt2-124m: 12 heads cannot share 5 key/value heads evenly");
  CHECK(changed("1e-05", "0") ==
        "gpt2-124m: the norm epsilon is 0, wanted a number between 0 and 1");
}

TEST_CASE("files and folders are models, named after themselves") {
  const auto folder = std::filesystem::temp_directory_path() / "sextant_model_test";
  std::filesystem::create_directories(folder / "tiny-llama");
  std::ofstream(folder / "own.json") << to_json_text(load_model("gpt2-xl"));
  CHECK(load_model((folder / "own.json").string()).name == "gpt2-xl");
  std::ofstream(folder / "tiny-llama" / "config.json")
      << R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64,
             "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100,
             "max_position_embeddings": 32})";
  CHECK(load_model((folder / "tiny-llama").string()).name == "tiny-llama");
  CHECK(load_model((folder / "tiny-llama" / "config.json").string()).name == "tiny-llama");
  CHECK(contains(refusal(folder.string()), "a folder without config.json"));
  std::ofstream(folder / "cut.json") << "{\"model_type\": \"llama\",\n \"hidden_size\": ";
  CHECK(contains(refusal((folder / "cut.json").string()), "cut.json: line 2, column"));
  std::ofstream(folder / "list.json") << "[]";
  CHECK(contains(refusal((folder / "list.json").string()), "a model config is an object"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sextant::config_test
