// Which operators backward repeats, what forward keeps instead, and that both are all: counted by
// hand on a GPT of two blocks.
#include "compiler/training/recompute.h"

#include "compiler/expand/expand.h"
#include "compiler/order/partition.h"
#include "compiler/training/autodiff.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/norm_builders.h"
#include "core/operators/layers/softmax.h"
#include "core/operators/movement/sources.h"
#include "tests/compiler/toy_chain.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant::recompute_test {
namespace {

// [batch, sequence] = 4 x 16, hidden 16, 4 heads, feed-forward 32: every tensor is a multiple of
// the alignment of buffers.
ToyGpt config(int layers = 2) {
  ToyGpt gpt;
  gpt.layers = layers;
  gpt.sequence = 16;
  gpt.hidden = 16;
  gpt.vocab = 16;
  gpt.ffn = 32;
  return gpt;
}

LogicalGraph training(const std::string& strategy, const ToyGpt& gpt = config()) {
  return make_training_graph(toy_gpt(gpt), parse_strategy(strategy));
}

std::set<std::string> repeated(const LogicalGraph& graph) {
  std::set<std::string> names;
  for (const LogicalOp& op : graph.ops())
    if (op.recompute_of) names.insert(graph.op(*op.recompute_of).name);
  return names;
}

std::set<int> repeated_layers(const LogicalGraph& graph) {
  std::set<int> layers;
  for (const LogicalOp& op : graph.ops())
    if (op.recompute_of) layers.insert(op.layer);
  return layers;
}

StagedGraph staged(const std::string& text, std::int64_t micro_batches = 4,
                   const ToyGpt& gpt = config()) {
  return make_staged_graph(training(text, gpt), parse_strategy(text), micro_batches, nullptr);
}

Bytes local_size(const StagedGraph& graph, const StagedTensor& tensor) {
  const Placement& placement = graph.placements[static_cast<std::size_t>(tensor.stage)];
  const Shard shard = shard_of(tensor.global.shape, tensor.words, placement.hierarchy(),
                               std::vector<std::int64_t>(placement.axes.size(), 0));
  return size_of(TensorType{shard.local_shape(), tensor.global.dtype});
}

// What one device keeps of one micro-batch from forward to backward, by layer of its maker. A
// reshape of what is kept costs nothing.
std::map<int, std::int64_t> saved(const StagedGraph& graph) {
  const Partition partition(graph);
  const auto in_backward = [&](StagedOpId reader) {
    return partition.part(reader) == StepPart::kInputGrad ||
           partition.part(reader) == StepPart::kWeightGrad;
  };
  std::map<int, std::int64_t> bytes;
  for (const StagedTensorId i : graph.tensors.keys()) {
    const StagedTensor& tensor = graph.tensors[i];
    const StagedOp& producer = graph.ops[tensor.producer];
    const StepPart part = partition.part(tensor.producer);
    if (tensor.is_state || producer.rate == Rate::kPerStep || part == StepPart::kInputGrad ||
        part == StepPart::kWeightGrad)
      continue;
    const auto is_kept = [&](StagedTensorId of) {
      const auto readers = partition.readers(of);
      return std::any_of(readers.begin(), readers.end(), in_backward);
    };
    const bool is_seen_twice = producer.kind == "reshape" && is_kept(producer.in[0]);
    if (is_kept(static_cast<StagedTensorId>(i)) && !is_seen_twice)
      bytes[producer.layer] += local_size(graph, tensor).value;
  }
  return bytes;
}

std::string refusal(const std::string& strategy, const LogicalGraph& model) {
  try {
    make_training_graph(model, parse_strategy(strategy));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("full recomputation repeats what a layer's backward reads, and what that needs") {
  const LogicalGraph graph = training("micro_batch=4 recompute=full");
  std::set<std::string> expected;
  for (const std::string layer : {"layer0.", "layer1."}) {
    // Not the product behind gelu, its bias and the last residual sum: no gradient reads them.
    for (const std::string name :
         {"norm1", "q", "q.bias", "q.heads", "k", "k.bias", "k.heads", "v", "v.bias", "v.heads",
          "attention", "merge", "o", "o.bias", "residual1", "norm2", "up", "up.bias", "gelu"})
      expected.insert(layer + name);
  }
  std::set<std::string> head;
  for (const std::string& name : repeated(graph))
    if (graph.op(*graph.find_op(name)).layer == 3) head.insert(name);
  std::set<std::string> blocks = repeated(graph);
  for (const std::string& name : head) blocks.erase(name);
  CHECK(blocks == expected);
  // The loss and the count of tokens are sums that no gradient reads.
  CHECK(head.contains("final_norm"));
  CHECK(head.contains("logits"));
  CHECK_FALSE(head.contains(graph.op(graph.tensor(*graph.loss_sum()).producer).name));
  CHECK_FALSE(head.contains(graph.op(graph.tensor(*graph.token_count()).producer).name));
}

TEST_CASE("repetitions stand between the layer's backward and everything before it") {
  const LogicalGraph graph = training("micro_batch=4 recompute=full");
  std::map<int, std::size_t> first_gradient;
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    const LogicalOp& op = graph.ops()[i];
    if (op.phase == Phase::kInputGrad || op.phase == Phase::kWeightGrad)
      first_gradient.try_emplace(op.layer, i);
  }
  for (std::size_t i = 0; i < graph.ops().size(); ++i) {
    const LogicalOp& op = graph.ops()[i];
    if (!op.recompute_of) continue;
    const LogicalOp& original = graph.op(*op.recompute_of);
    CAPTURE(op.name);
    CHECK(op.name == original.name + ".recompute");
    CHECK(op.kind == original.kind);
    CHECK(op.attributes == original.attributes);
    CHECK(op.layer == original.layer);
    CHECK(original.phase == Phase::kForward);
    CHECK(i < first_gradient.at(op.layer));
    // Right before it: nothing of another layer is between.
    for (std::size_t j = i; j < first_gradient.at(op.layer); ++j)
      CHECK(graph.ops()[j].layer == op.layer);
    for (const TensorId output : op.outputs)
      for (const LogicalGraph::Use& use : graph.uses(output))
        CHECK(graph.op(use.op).layer == op.layer);
  }
  // Without them it is the graph of no recomputation.
  const LogicalGraph plain = training("micro_batch=4");
  std::vector<std::string> names, others;
  for (const LogicalOp& op : plain.ops()) names.push_back(op.name);
  for (const LogicalOp& op : graph.ops())
    if (!op.recompute_of) others.push_back(op.name);
  CHECK(names == others);
  CHECK(repeated(plain).empty());
}

TEST_CASE("selective recomputation repeats attention alone") {
  CHECK(repeated(training("micro_batch=4 recompute=selective")) ==
        std::set<std::string>{"layer0.attention", "layer1.attention"});
}

TEST_CASE("of every stage the first k blocks repeat") {
  const ToyGpt six = config(6);
  using Layers = std::set<int>;
  CHECK(repeated_layers(training("micro_batch=4 recompute=2", six)) == Layers{1, 2});
  CHECK(repeated_layers(training("pp=2 micro_batch=4 recompute=1", six)) == Layers{1, 4});
  CHECK(repeated_layers(training("pp=2 micro_batch=4 recompute=3", six)) ==
        Layers{1, 2, 3, 4, 5, 6});
  CHECK(repeated_layers(training("pp=3 micro_batch=4 recompute=1", six)) == Layers{1, 3, 5});
  // A stage with fewer layers repeats all it has.
  CHECK(repeated_layers(training("pp=2 micro_batch=4 recompute=3 first_layers=4 last_layers=2",
                                 six)) == Layers{1, 2, 3, 5, 6});
  CHECK(refusal("pp=2 micro_batch=4 recompute=4", toy_gpt(six)) ==
        "recompute=4: no chunk of a stage has more than 3 layers between the first and the last "
        "of the model; recompute=full repeats all");
  // Of every chunk: layers 1 to 8 in four chunks of two.
  const ToyGpt eight = config(8);
  for (const std::string schedule : {"interleaved", "zb-v"})
    CHECK(repeated_layers(training("pp=2 virtual=2 micro_batch=4 recompute=1 schedule=" + schedule,
                                   eight)) == Layers{1, 3, 5, 7});
}

TEST_CASE("a model without attention has nothing that selective recomputation could repeat") {
  CHECK(refusal("micro_batch=4 recompute=selective", toy_mlp(4, 4, 8, 4)) ==
        "recompute=selective repeats attention, and the model has none");
}

// Elements of a block per micro-batch, in units of one [4, 16, 16] tensor T of 4 KiB: norm1 T,
// q k v 3T, attention T, residual1 T, norm2 T, up.bias 2T, gelu 2T, residual2 T (the next layer's
// input) = 12T, merge being attention reshaped, which is kept where that is repeated; the
// statistics of two norms 4 x 64 elements; lse 4 x 16 x 4 elements.
constexpr std::int64_t kT = 4 * 16 * 16 * 4, kStatistics = 4 * 64 * 4, kLse = 4 * 16 * 4 * 4;

TEST_CASE("forward keeps what no gradient operator can have again, to the byte") {
  const auto of_blocks = [&](const std::string& text) {
    const std::map<int, std::int64_t> bytes = saved(staged(text));
    CHECK(bytes.at(1) == bytes.at(2));
    CHECK(bytes.at(0) == kT + 64 * 4);  // the first block's input and the token ids
    return bytes.at(1);
  };
  CHECK(of_blocks("micro_batch=4") == 12 * kT + kStatistics + kLse);
  CHECK(of_blocks("micro_batch=4 recompute=selective") == 12 * kT + kStatistics);
  CHECK(of_blocks("micro_batch=4 recompute=full") == kT);
  // Split over tp: q, k, v, attention, up.bias, gelu and lse; the rest is whole.
  CHECK(of_blocks("tp=2 micro_batch=4") == 4 * kT + 8 * kT / 2 + kStatistics + kLse / 2);
  CHECK(of_blocks("tp=2 micro_batch=4 recompute=selective") == 4 * kT + 8 * kT / 2 + kStatistics);
  CHECK(of_blocks("tp=2 micro_batch=4 recompute=full") == kT);
}

TEST_CASE("the head keeps its input and the labels when it is recomputed") {
  CHECK(saved(staged("micro_batch=4 recompute=full")).at(3) == 64 * 4);
  CHECK(saved(staged("micro_batch=4")).at(3) > 64 * 4);
}

TEST_CASE("of k layers those keep their inputs, the others everything") {
  const std::map<int, std::int64_t> bytes = saved(staged("micro_batch=4 recompute=1"));
  CHECK(bytes.at(1) == kT);
  CHECK(bytes.at(2) == 12 * kT + kStatistics + kLse);
}

// Layers hand over parts of the sequence, and the first norm reads it whole: gathered for forward,
// and again for backward, which keeps the part.
TEST_CASE("what forward boxes its input to is boxed again, not kept") {
  const StagedGraph graph = staged(
      "tp=2 micro_batch=4 recompute=full pin=layer*.residual2:(B,S(1)) "
      "pin=layer*.norm1[0]:(B,B)");
  CHECK(saved(graph).at(1) == kT / 2);
  std::map<Phase, int> gathers;
  for (const StagedOp& op : graph.ops)
    if (op.name == "layer0.residual2.all_gather" && op.layer == 2) ++gathers[op.phase];
  CHECK(gathers == std::map<Phase, int>{{Phase::kForward, 1}, {Phase::kRecompute, 1}});
}

TEST_CASE("each micro-batch in flight costs the memory plan what forward keeps of it") {
  const auto activations = [](const std::string& text, std::int64_t micro_batches) {
    ExpandOptions options;
    options.schedule = Schedule::kGPipe;
    options.slot_lifetime = SlotLifetime::kIssueOrder;
    const PhysicalGraph graph =
        expand(staged(text, micro_batches), testing::ToyCost(), testing::ToyNetwork(3, 2), options);
    return graph.programs[ProgramId(0)]
        .arena.peak_by_class[static_cast<std::size_t>(MemoryClass::kActivations)]
        .value;
  };
  for (const std::string recompute : {"none", "selective", "full", "1"}) {
    const std::string text = "micro_batch=4 schedule=gpipe recompute=" + recompute;
    CAPTURE(text);
    std::int64_t expected = 0;
    for (const auto& [layer, bytes] : saved(staged(text))) expected += bytes;
    CHECK(activations(text, 6) - activations(text, 4) == 2 * expected);
  }
}

TEST_CASE("repetitions act inside the backward cell of their layer, in the words of forward") {
  for (const std::string text :
       {"dp=2 tp=2 micro_batch=2 recompute=full", "pp=2 tp=2 micro_batch=4 recompute=full",
        "dp=2 tp=2 micro_batch=2 zero=1 recompute=selective",
        "dp=2 tp=2 micro_batch=2 recompute=full pin=layer*.residual1:(S(0),S(1))"}) {
    CAPTURE(text);
    const StagedGraph graph = staged(text);
    const Partition partition(graph);
    std::map<std::string, const StagedTensor*> by_name;
    for (const StagedTensor& tensor : graph.tensors) by_name[tensor.name] = &tensor;
    std::int64_t count = 0;
    for (const StagedOpId i : graph.ops.keys()) {
      const StagedOp& op = graph.ops[i];
      if (op.phase != Phase::kRecompute) continue;
      CHECK(partition.part(static_cast<StagedOpId>(i)) == StepPart::kInputGrad);
      CHECK(op.rate == Rate::kPerMicroBatch);
      for (const StagedTensorId out : op.out) {
        std::string name = graph.tensors[out].name;
        const std::size_t suffix = name.find(".recompute");
        if (suffix == std::string::npos) continue;  // the boxing of a kept tensor
        name.erase(suffix, std::string(".recompute").size());
        REQUIRE(by_name.contains(name));
        CHECK(by_name[name]->words == graph.tensors[out].words);
        ++count;
      }
    }
    CHECK(count > 0);
  }
}

TEST_CASE("pins name originals, and repetitions follow") {
  const StagedGraph graph = staged("tp=2 micro_batch=4 recompute=full pin=layer1.gelu:(B,B)");
  std::int64_t found = 0;
  for (const StagedTensor& tensor : graph.tensors) {
    if (tensor.name != "layer1.gelu" && tensor.name != "layer1.gelu.recompute") continue;
    CHECK(to_string(tensor.words) == "(B, B)");
    ++found;
  }
  CHECK(found == 2);
  try {
    staged("tp=2 micro_batch=4 recompute=full pin=layer1.gelu.recompute:(B,B)");
    FAIL("a repetition was pinned");
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find("no tensor has that name") != std::string::npos);
  }
}

// Keys and values are rolled again with it, so that no rolled copy is kept.
TEST_CASE("a ring that backward repeats is a ring, part by part") {
  for (const std::string recompute : {"selective", "full"}) {
    const LogicalGraph graph = training("cp=2 micro_batch=4 recompute=" + recompute);
    std::map<std::string, int> kinds;
    for (const LogicalOp& op : graph.ops()) {
      if (op.phase != Phase::kRecompute) continue;
      REQUIRE(op.recompute_of.has_value());
      const LogicalOp& original = graph.op(*op.recompute_of);
      CHECK(original.kind == op.kind);
      CHECK(original.attributes == op.attributes);
      CHECK(original.phase == Phase::kForward);
      ++kinds[op.kind];
    }
    // Two layers of two chunks: one roll of keys and of values, one merge.
    CHECK(kinds["attention_chunks"] == 4);
    CHECK(kinds["attention_merge"] == 2);
    CHECK(kinds["roll"] == 4);
  }
}

// A forward graph of one block with batch norm, whose running statistics are tensors of the graph.
TEST_CASE("running statistics are updated once, by forward") {
  LogicalGraph graph(builtin_operators());
  const TensorType plane{{4, 3, 2}, DType::kF32}, channel{{3}, DType::kF32};
  const TensorId x = add_input(graph, "x", 0, plane);
  const TensorId old_mean = add_input(graph, "running.mean", 1, channel);
  const NormParameters parameters{.gamma = add_parameter(graph, "gamma", 1, channel, {}),
                                  .beta = add_parameter(graph, "beta", 1, channel, {}),
                                  .epsilon = 1e-5};
  const BatchNorm norm = batch_norm(graph, x, parameters, "norm", 1);
  running_average(graph, old_mean, norm.mean, 0.1, "running", 1);
  const TensorId squares =
      graph.output(graph.add({.kind = "reduce_sum",
                              .name = "squares",
                              .attributes = {{"dims", std::vector<std::int64_t>{0, 1, 2}}},
                              .inputs = {norm.y},
                              .outputs = {},
                              .layer = 2,
                              .parameter = std::nullopt}));
  graph.set_loss(squares, squares);
  append_gradients(graph);
  const LogicalGraph result = with_recompute(graph, parse_strategy("recompute=full"));
  const std::set<std::string> names = repeated(result);
  CHECK(names.contains(graph.op(graph.tensor(norm.mean).producer).name));
  for (const std::string& name : names) CHECK(name.find("running") == std::string::npos);
  CHECK(result.find_op("running").has_value());
}

// Scores, a scale, softmax and dropout between two products of batches; a router's softmax between
// attention and the products of experts is none.
TEST_CASE("attention written out is what lies between its two products of batches") {
  LogicalGraph graph(builtin_operators());
  const auto op = [&](std::string kind, std::string name, std::vector<TensorId> inputs,
                      Attributes attributes = {}) {
    return graph.output(graph.add({.kind = std::move(kind),
                                   .name = std::move(name),
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .layer = 1,
                                   .parameter = std::nullopt}));
  };
  const TensorType heads{{4, 5, 8}, DType::kF32};
  const TensorId q = add_input(graph, "q", 1, heads), k = add_input(graph, "k", 1, heads),
                 v = add_input(graph, "v", 1, heads);
  const TensorId w = add_parameter(graph, "w", 1, {{8, 8}, DType::kF32}, {});
  const TensorId scores = op("batch_matmul", "scores", {q, k}, {{"transpose_w", true}});
  const TensorId scaled = op("scale", "scaled", {scores}, {{"factor", 0.5}});
  const TensorId weights = softmax(graph, scaled, -1, "weights", 1);
  const TensorId values = op("batch_matmul", "values", {weights, v});
  const TensorId projected = op("matmul", "projected", {values, w});
  const TensorId gates = softmax(graph, projected, -1, "gates", 1);
  op("batch_matmul", "experts", {gates, v}, {{"transpose_w", true}});
  const std::vector<bool> core = attention_core(graph);
  std::set<std::string> names;
  for (std::size_t i = 0; i < core.size(); ++i)
    if (core[i]) names.insert(graph.ops()[i].name);
  CHECK(names == std::set<std::string>{"scores", "scaled", "weights.max", "weights.sum_exp",
                                       "weights", "values"});
}

}  // namespace
}  // namespace sextant::recompute_test
