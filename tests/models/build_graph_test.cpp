// The forward graph of a model: its parameters, shapes, words by convention and size in time.
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "models/any_model.h"
#include "models/model.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>

namespace sextant::build_graph_test {
namespace {

std::int64_t parameters_of(const LogicalGraph& graph) {
  std::int64_t count = 0;
  for (const LogicalTensor& tensor : graph.tensors())
    if (tensor.role == TensorRole::kParameter) count += tensor.type.shape.elements();
  return count;
}

const LogicalTensor& tensor(const LogicalGraph& graph, std::string_view name) {
  const auto op = graph.find_op(name);
  REQUIRE_MESSAGE(op.has_value(), name);
  return graph.tensor(graph.output(*op));
}

std::optional<std::size_t> cut(const LogicalGraph& graph, std::string_view name) {
  return graph.op(*graph.find_op(name)).parameter->tensor_parallel_dim;
}

TEST_CASE("the graph holds exactly the parameters that the sizes say") {
  for (const char* const model :
       {"gpt2-124m", "llama3.2-1b", "qwen2.5-7b", "qwen3-0.6b", "gpt-bytes-1m",
        "llama:layers=2,hidden=64,heads=4,kv_heads=2,tied=1",
        "llama:layers=2,hidden=64,heads=4,experts=3", "gpt:layers=2,hidden=64,heads=4,experts=5",
        "bert-base", "bert:layers=2,hidden=64,heads=4,tied=0"}) {
    CAPTURE(std::string(model));
    const ModelConfig config = load_model(model);
    for (const DType dtype : {DType::kF32, DType::kBF16})
      CHECK(parameters_of(build_graph(config, 1, config.sequence, dtype)) ==
            count_parameters(config));
  }
}

TEST_CASE("gpt: shapes, layers and names") {
  const ModelConfig config = load_model("gpt:layers=2,hidden=8,heads=2,vocab=11,seq=6");
  const LogicalGraph graph = build_graph(config, 3, 6, DType::kF32);
  CHECK(graph.num_layers() == 4);
  CHECK(tensor(graph, "tokens").type == TensorType{{3, 6}, DType::kI32});
  CHECK(tensor(graph, "layer1.attention.q.heads").type.shape == Shape{3, 6, 2, 4});
  CHECK(tensor(graph, "layer2.mlp.up").type.shape == Shape{3, 6, 32});
  CHECK(tensor(graph, "head").type.shape == Shape{3, 6, 11});
  CHECK(graph.op(*graph.find_op("embedding")).layer == 0);
  CHECK(graph.op(*graph.find_op("layer2.attention.core")).layer == 2);
  CHECK(graph.op(*graph.find_op("loss")).layer == 3);
  REQUIRE(graph.loss_sum().has_value());
  CHECK(graph.tensor(*graph.loss_sum()).type.shape == Shape{});
  // The tied table has two readers: look-up and head.
  const TensorId table = graph.output(*graph.find_op("embedding.weight"));
  CHECK(graph.uses(table).size() == 2);
  CHECK_FALSE(graph.find_op("head.weight").has_value());
}

TEST_CASE("tensor parallelism cuts by the Megatron convention") {
  const LogicalGraph gpt =
      build_graph(load_model("gpt:layers=1,hidden=8,heads=2"), 1, 4, DType::kF32);
  CHECK(cut(gpt, "embedding.weight") == 0);           // vocabulary
  CHECK(cut(gpt, "layer1.attention.q.weight") == 1);  // columns, with their bias
  CHECK(cut(gpt, "layer1.attention.q.bias") == 0);
  CHECK(cut(gpt, "layer1.attention.o.weight") == 0);  // rows; the bias is added once
  CHECK(cut(gpt, "layer1.attention.o.bias") == std::nullopt);
  CHECK(cut(gpt, "layer1.mlp.up.weight") == 1);
  CHECK(cut(gpt, "layer1.mlp.down.weight") == 0);
  CHECK(cut(gpt, "layer1.attention.norm.weight") == std::nullopt);
  CHECK(cut(gpt, "positions.weight") == std::nullopt);
  const LogicalGraph llama =
      build_graph(load_model("llama:layers=1,hidden=8,heads=2"), 1, 4, DType::kF32);
  CHECK(cut(llama, "layer1.mlp.gate.weight") == 1);
  CHECK(cut(llama, "head.weight") == 0);
}

TEST_CASE("llama: rotary positions on q and k only, grouped heads, no biases") {
  const LogicalGraph graph =
      build_graph(load_model("llama:layers=1,hidden=16,heads=4,kv_heads=2"), 2, 6, DType::kBF16);
  CHECK(tensor(graph, "layer1.attention.q.rope").type.shape == Shape{2, 6, 4, 4});
  CHECK(tensor(graph, "layer1.attention.k.rope").type.shape == Shape{2, 6, 2, 4});
  CHECK_FALSE(graph.find_op("layer1.attention.v.rope").has_value());
  for (const LogicalOp& op : graph.ops()) CHECK(op.kind != "bias_add");
}

TEST_CASE("bert: norms behind the sums, all tokens seen, a transform and a bias at the head") {
  const LogicalGraph graph =
      build_graph(load_model("bert:layers=2,hidden=8,heads=2,vocab=11,seq=6"), 3, 5, DType::kF32);
  const auto made_by = [&](std::string_view name, std::size_t input) {
    return graph.op(graph.tensor(graph.op(*graph.find_op(name)).inputs[input]).producer).name;
  };
  CHECK_FALSE(
      graph.op(*graph.find_op("layer1.attention.core")).attributes.boolean_or("causal", true));
  CHECK(made_by("layer1.attention.q", 0) == "embedding.norm");
  CHECK(made_by("layer1.attention.norm", 0) == "layer1.attention.residual");
  CHECK(made_by("layer1.mlp.residual", 0) == "layer1.attention.norm");
  CHECK(made_by("layer2.attention.residual", 0) == "layer1.mlp.norm");
  CHECK_FALSE(graph.find_op("final.norm").has_value());
  CHECK(made_by("head", 0) == "transform.norm");
  CHECK(tensor(graph, "head.biased").type.shape == Shape{3, 5, 11});
  CHECK(cut(graph, "head.bias") == 0);
  CHECK(tensor(graph, "token_types.weight").type.shape == Shape{2, 8});
  for (const char* const input : {"tokens", "labels"})
    CHECK(graph.op(*graph.find_op(input)).attributes.integer("mask_id") == 0);
}

TEST_CASE("parameters stay f32 and are cast where a 16-bit model uses them") {
  const LogicalGraph graph =
      build_graph(load_model("gpt:layers=1,hidden=8,heads=2"), 1, 4, DType::kBF16);
  for (const LogicalTensor& one : graph.tensors())
    if (one.role == TensorRole::kParameter) CHECK(one.type.dtype == DType::kF32);
  CHECK(tensor(graph, "layer1.mlp.up").type.dtype == DType::kBF16);
  CHECK(tensor(graph, "head").type.dtype == DType::kBF16);
  CHECK(graph.tensor(*graph.loss_sum()).type.dtype == DType::kF32);
  const LogicalGraph exact =
      build_graph(load_model("gpt:layers=1,hidden=8,heads=2"), 1, 4, DType::kF64);
  for (const LogicalOp& op : exact.ops()) CHECK(op.kind != "cast");
}

TEST_CASE("a shorter sequence uses the first learned positions, a longer one is refused") {
  const ModelConfig config = load_model("gpt:layers=1,hidden=8,heads=2,seq=6");
  CHECK(tensor(build_graph(config, 1, 4, DType::kF32), "positions.used").type.shape == Shape{4, 8});
  CHECK_THROWS_AS(build_graph(config, 1, 7, DType::kF32), Error);
  // Rotary positions have no table.
  CHECK_NOTHROW(
      build_graph(load_model("llama:layers=1,hidden=8,heads=2,seq=6"), 1, 7, DType::kF32));
}

TEST_CASE("decay is for matrices, and residual projections start smaller") {
  const LogicalGraph graph =
      build_graph(load_model("gpt:layers=8,hidden=8,heads=2"), 1, 4, DType::kF32);
  const auto info = [&](const char* name) { return *graph.op(*graph.find_op(name)).parameter; };
  CHECK(info("layer1.mlp.up.weight").weight_decay);
  CHECK_FALSE(info("layer1.mlp.up.bias").weight_decay);
  CHECK_FALSE(info("final.norm.weight").weight_decay);
  CHECK(info("final.norm.weight").initializer.kind == Initializer::Kind::kOnes);
  CHECK(info("layer1.mlp.up.weight").initializer.standard_deviation == 0.02);
  // 0.02 / sqrt(2 * 8) = 0.005, exact up to one rounding.
  CHECK(info("layer1.mlp.down.weight").initializer.standard_deviation ==
        doctest::Approx(0.005).epsilon(1e-15));
}

TEST_CASE(
    "experts: shapes, cuts, and a quarter more places than the even share if no factor is given") {
  const ModelConfig config = load_model("llama:layers=1,hidden=8,heads=2,ffn=7,experts=5,top_k=2");
  const LogicalGraph graph = build_graph(config, 3, 6, DType::kF32);
  CHECK(tensor(graph, "layer1.mlp.router").type.shape == Shape{3, 6, 5});
  // ceil(1.25 * 6 tokens * 2 / 5 experts) = 3 places for each of three samples.
  CHECK(tensor(graph, "layer1.mlp.dispatch").type.shape == Shape{5, 3, 3, 8});
  CHECK(tensor(graph, "layer1.mlp.experts.gate").type.shape == Shape{5, 9, 7});
  CHECK(tensor(graph, "layer1.mlp.combine").type.shape == Shape{3, 6, 8});
  CHECK(cut(graph, "layer1.mlp.router.weight") == std::nullopt);
  CHECK(cut(graph, "layer1.mlp.experts.gate.weight") == 2);
  CHECK(cut(graph, "layer1.mlp.experts.up.weight") == 2);
  CHECK(cut(graph, "layer1.mlp.experts.down.weight") == 1);
  for (const LogicalOp& op : graph.ops()) {
    if (op.kind != "parameter") continue;
    const bool is_expert = op.name.find(".experts.") != std::string::npos;
    CHECK(op.parameter->expert_parallel_dim.has_value() == is_expert);
    if (is_expert) CHECK(op.parameter->expert_parallel_dim == 0);
  }
}

TEST_CASE("F04: experts of Mixtral have 1.25 times the even share of places, and a note says so") {
  // 32,768 tokens * 2 / 8 experts = 8,192 of each sample, 65,536 of eight; times 1.25: 81,920 rows
  // of an expert, where a place for every token would be 262,144.
  const ModelConfig mixtral = load_model("mixtral-8x7b:layers=1");
  CHECK(places_per_expert(mixtral, 32768) == 10'240);
  CHECK(
      tensor(build_graph(mixtral, 8, 32768, DType::kBF16), "layer1.mlp.experts.gate").type.shape ==
      Shape{8, 81'920, 14336});
  const auto notes = [](const char* model) { return planning_assumptions(load_any_model(model)); };
  REQUIRE(notes("mixtral-8x7b").size() == 1);
  CHECK(notes("mixtral-8x7b").front().starts_with("experts have places for 1.25 times the even "));
  CHECK(notes("mixtral-8x7b")
            .front()
            .ends_with("capacity_factor=N gives other room, 4 a place "
                       "for every token"));
  CHECK(notes_of(load_any_model("mixtral-8x7b")) == notes("mixtral-8x7b"));
  CHECK(notes("mixtral-8x7b:capacity_factor=1").empty());
  CHECK(notes("llama2-7b").empty());
  // As many as the factor says where it says something, and never more than tokens by default.
  CHECK(places_per_expert(load_model("mixtral-8x7b:capacity_factor=4"), 4096) == 4096);
  CHECK(places_per_expert(load_model("gpt:layers=1,hidden=8,heads=2,experts=2,top_k=2"), 8) == 8);
}

TEST_CASE("G38: the capacity is that of one sample, however many samples there are") {
  // ceil(1.0 * 8 tokens * 2 / 4 experts) = 4, with one sample as with three; 5 tokens: 3.
  const ModelConfig config =
      load_model("llama:layers=1,hidden=8,heads=2,experts=4,top_k=2,capacity_factor=1");
  for (const std::int64_t batch : {1, 3})
    CHECK(tensor(build_graph(config, batch, 8, DType::kF32), "layer1.mlp.dispatch").type.shape ==
          Shape{4, batch, 4, 8});
  CHECK(places_per_expert(config, 5) == 3);
}

TEST_CASE(
    "G67: an absurd capacity factor gives the size that memory plans refuse, not a smaller one") {
  // 16384 * 4096 tokens * 1 / 8 experts = 8388608 places; 8 experts * 1024 * 2 B each: 128 GiB.
  const ModelConfig config = load_model(
      "llama:layers=1,hidden=1024,heads=8,experts=8,top_k=1,capacity_factor=16384,seq=4096");
  const LogicalGraph graph = build_graph(config, 1, 4096, DType::kBF16);
  const TensorType& type = tensor(graph, "layer1.mlp.dispatch").type;
  CHECK(type.shape == Shape{8, 1, 8388608, 1024});
  CHECK(size_of(type).value == std::int64_t{128} << 30);
}

TEST_CASE("dropout is where it is asked for, and nowhere else") {
  const auto dropped = [](const char* model) {
    std::set<std::string> names;
    const LogicalGraph graph = build_graph(load_model(model), 1, 4, DType::kF32);
    for (const LogicalOp& op : graph.ops())
      if (op.kind == "dropout") names.insert(op.name);
    return names;
  };
  CHECK(dropped("gpt:layers=1,hidden=8,heads=2").empty());
  CHECK(
      dropped("gpt:layers=1,hidden=8,heads=2,dropout=0.1") ==
      std::set<std::string>{"embedding.dropout", "layer1.attention.dropout", "layer1.mlp.dropout"});
}

TEST_CASE("impossible graphs are refused") {
  const ModelConfig config = load_model("gpt:layers=1,hidden=8,heads=2");
  CHECK_THROWS_AS(build_graph(config, 0, 4, DType::kF32), Error);
  CHECK_THROWS_AS(build_graph(config, 1, 0, DType::kF32), Error);
  CHECK_THROWS_AS(build_graph(config, 1, 4, DType::kI32), Error);
}

TEST_CASE("graphviz text and the topological order cover every operator") {
  const LogicalGraph graph =
      build_graph(load_model("gpt:layers=2,hidden=8,heads=2"), 1, 4, DType::kF32);
  const std::vector<OpId> order = topological_order(graph);
  REQUIRE(order.size() == graph.ops().size());
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == OpId(i));
  const std::string text = to_graphviz(graph);
  CHECK(text.find("digraph") == 0);
  CHECK(text.find("label=\"layer2.mlp.gelu\ngelu\"") != std::string::npos);
}

TEST_CASE("the graph of GPT-3 175B is built in a few milliseconds") {
  const ModelConfig config = load_model("gpt3-175b");
  double fastest = 1e9;  // ms of processor time: the machine may be busy with other things
  std::size_t num_ops = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const std::clock_t begin = std::clock();
    num_ops = build_graph(config, 1, 2048, DType::kBF16).ops().size();
    fastest = std::min(fastest, 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  MESSAGE(num_ops << " operators in " << fastest << " ms");
  CHECK(fastest < 50.0);  // about 5 on a quiet machine; sanitizers take ten times as long
}

}  // namespace
}  // namespace sextant::build_graph_test
