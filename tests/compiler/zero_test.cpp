// ZeRO, split sequences and spread experts as words and rates: what a staged graph moves, how
// often, how long it keeps it, and what memory that leaves.
#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "core/base/check.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/layers/moe.h"
#include "core/operators/layers/softmax.h"
#include "core/operators/movement/sources.h"
#include "tests/compiler/toy_chain.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant::zero_test {
namespace {

constexpr std::int64_t kMicroBatches = 3;

// Matrices, table and head are sharded, norms and biases are not.
constexpr ToyGpt kBig{.layers = 2, .hidden = 32, .vocab = 40, .ffn = 64, .compute = DType::kBF16};

StagedGraph stage(const LogicalGraph& forward, const std::string& strategy) {
  StagedGraph graph = make_staged_graph(make_training_graph(forward), parse_strategy(strategy),
                                        kMicroBatches, nullptr);
  CHECK(validate(graph) == std::vector<std::string>{});
  return graph;
}

const StagedTensor& tensor(const StagedGraph& graph, StagedTensorId index) {
  return graph.tensors[index];
}
const StagedOp& producer(const StagedGraph& graph, const StagedTensor& tensor) {
  return graph.ops[tensor.producer];
}
const StagedOp& find(const StagedGraph& graph, const std::string& name) {
  const auto at = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const StagedOp& op) { return op.name == name; });
  if (at == graph.ops.end()) FAIL("no operator " << name);
  return *at;
}

// Acts per step of the collectives whose input or output has this memory class.
std::int64_t acts(const StagedGraph& graph, Primitive primitive, MemoryClass made) {
  std::int64_t count = 0;
  for (const StagedOp& op : graph.ops)
    if (op.communication && op.communication->primitive == primitive && !op.out.empty() &&
        tensor(graph, op.out[0]).memory == made)
      count += op.rate == Rate::kPerStep ? 1 : graph.micro_batches;
  return count;
}
std::int64_t gathers(const StagedGraph& graph) {
  return acts(graph, Primitive::kAllGather, MemoryClass::kParameters);
}
std::int64_t scatters(const StagedGraph& graph) {
  return acts(graph, Primitive::kReduceScatter, MemoryClass::kGradients);
}

bool is_forward(const StagedOp& op) { return op.phase == Phase::kForward; }

std::vector<const StagedOp*> readers(const StagedGraph& graph, StagedTensorId read) {
  std::vector<const StagedOp*> found;
  for (const StagedOp& op : graph.ops)
    if (std::find(op.in.begin(), op.in.end(), read) != op.in.end()) found.push_back(&op);
  return found;
}

// Sharded: q, k, v, o (32x32), up, down (32x64) of two layers, the tied table of 40x32.
constexpr std::int64_t kMatrices = 2 * 6;

TEST_CASE("ZeRO stages differ in how often they gather and reduce, and in nothing else") {
  // Embedding and head read one copy of the table in forward, the head again in backward. Its two
  // gradients are summed before stage 1 reduces them, and each is reduced by itself from stage 2
  // on.
  const auto count = [&](int zero) {
    return stage(toy_gpt(kBig), "dp=2 micro_batch=2 zero=" + std::to_string(zero));
  };
  CHECK(gathers(count(0)) == 0);
  CHECK(scatters(count(0)) == 0);
  CHECK(gathers(count(1)) == kMatrices + 1);
  CHECK(scatters(count(1)) == kMatrices + 1);
  CHECK(gathers(count(2)) == kMatrices + 1);
  CHECK(scatters(count(2)) == (kMatrices + 2) * kMicroBatches);
  CHECK(gathers(count(3)) == (2 * kMatrices + 3) * kMicroBatches);
  CHECK(scatters(count(3)) == (kMatrices + 2) * kMicroBatches);
}

TEST_CASE("ZeRO-2 sums gradients in the words of the state, ZeRO-1 as they are made") {
  const StagedGraph once = stage(toy_gpt(kBig), "dp=2 tp=2 micro_batch=2 zero=1");
  const StagedGraph often = stage(toy_gpt(kBig), "dp=2 tp=2 micro_batch=2 zero=2");
  const auto gradient = [](const StagedGraph& graph) {
    return tensor(graph, find(graph, "layer0.up.w.adamw").in[0]);
  };
  CHECK(to_string(gradient(once).words) == "(S(0), S(1))");
  CHECK(producer(once, gradient(once)).rate == Rate::kPerStep);
  CHECK(to_string(gradient(often).words) == "(S(0), S(1))");
  CHECK(producer(often, gradient(often)).rate == Rate::kPerMicroBatch);
  CHECK(producer(often, gradient(often)).kind == "reduce_scatter");
  CHECK(gradient(often).memory == MemoryClass::kGradients);
}

TEST_CASE("a reduction that leaves an axis whole waits for the end of the step in ZeRO-2 too") {
  // Without Megatron's cut a weight beside split sequences gets partial gradients over tp.
  const StagedGraph graph = stage(toy_gpt({.layers = 1, .hidden = 1024, .ffn = 8}),
                                  "dp=2 tp=2 micro_batch=2 zero=2 sp=on");
  const StagedOp& scatter = find(graph, "layer0.norm1.grad_weight.reduce_scatter");
  CHECK(scatter.rate == Rate::kPerMicroBatch);
  CHECK(to_string(tensor(graph, scatter.out[0]).words) == "(S(0), P(sum))");
  CHECK(find(graph, "layer0.norm1.grad_weight.all_reduce").rate == Rate::kPerStep);
}

TEST_CASE("what ZeRO-3 gathers for forward no operator of backward reads, and the reverse") {
  const StagedGraph graph = stage(toy_gpt(kBig), "dp=2 tp=2 pp=2 micro_batch=2 zero=3");
  int gathered = 0;
  for (const StagedTensorId i : graph.tensors.keys()) {
    const StagedTensor& t = graph.tensors[i];
    if (producer(graph, t).kind != "all_gather" || t.memory != MemoryClass::kParameters) continue;
    ++gathered;
    CHECK(producer(graph, t).rate == Rate::kPerMicroBatch);
    for (const StagedOp* reader : readers(graph, static_cast<StagedTensorId>(i))) {
      CHECK(is_forward(*reader) == is_forward(producer(graph, t)));
      CHECK(reader->layer == producer(graph, t).layer);
    }
  }
  CHECK(gathered == 2 * kMatrices + 3);
}

TEST_CASE("below the smallest sharded size a parameter is read and summed as without ZeRO") {
  const StagedGraph graph = stage(toy_gpt(kBig), "dp=2 micro_batch=2 zero=3");
  CHECK(to_string(tensor(graph, find(graph, "layer0.up.b.adamw").out[0]).words) == "(B, B)");
  CHECK(find(graph, "layer0.up.bias.grad_weight").rate == Rate::kPerMicroBatch);
  CHECK(find(graph, "layer0.up.bias.grad_weight.all_reduce").rate == Rate::kPerStep);
}

TEST_CASE("G27: a tied table sends the other stage its part once per step, whatever it gathers") {
  for (const int zero : {0, 1, 2, 3})
    for (const int pp : {2, 3, 4}) {
      CAPTURE(zero);
      CAPTURE(pp);
      ToyGpt config = kBig;
      config.layers = 4;
      const StagedGraph graph = stage(toy_gpt(config), fmt::format("dp=2 pp={} micro_batch=2 "
                                                                   "zero={}",
                                                                   pp, zero));
      std::int64_t updates = 0, sent = 0, returned = 0;
      for (const StagedOp& op : graph.ops) {
        if (op.name == "embedding.tokens.adamw") ++updates;
        const bool sends = op.communication && op.communication->side == Side::kSend;
        if (!sends || op.name.find("grad") == std::string::npos) {
          if (sends && op.communication->to_stage == pp - 1 && op.stage == 0 &&
              tensor(graph, op.in[0]).global.shape == Shape{40, 32}) {
            ++sent;
            CHECK(op.rate == Rate::kPerStep);
          }
        } else if (tensor(graph, op.in[0]).global.shape == Shape{40, 32}) {
          ++returned;
          CHECK(op.rate == Rate::kPerStep);
          CHECK(op.communication->to_stage == 0);
        }
      }
      CHECK(updates == 1);
      CHECK(sent == 1);
      CHECK(returned == 1);
    }
}

// --- memory --------------------------------------------------------------------------------------

// By class, of the one device with most.
std::vector<Bytes> peak(const LogicalGraph& forward, const std::string& text) {
  const Strategy strategy = parse_strategy(text);
  const testing::ToyNetwork network(1, 1);
  const StagedGraph staged =
      make_staged_graph(make_training_graph(forward), strategy, kMicroBatches, nullptr);
  class UnitCost : public CostModel {
    Duration duration(const Work&) const override { return Duration(10); }
    Duration launch_cost() const override { return Duration(0); }
  };
  ExpandOptions options;
  options.buckets = {.bytes = Bytes(0), .operations = 0};  // one would be half of such a model
  const PhysicalGraph graph = expand(staged, UnitCost(), network, options);
  return graph.programs[ProgramId(0)].arena.peak_by_class;
}
std::int64_t bytes(const std::vector<Bytes>& peak, MemoryClass memory) {
  return peak[static_cast<std::size_t>(memory)].value;
}

TEST_CASE("state takes 2 + 4 + 12 bytes per parameter, divided as the stage says") {
  // Little else than weights: matrices of 64 x 64 and 64 x 256, short sequences. Per layer 4 x 64^2
  // + 2 x 64 x 256, a table of 64 x 64; norms and biases, not sharded, are 1 % more.
  const ToyGpt config{.layers = 8,
                      .batch = 4,
                      .sequence = 1,
                      .hidden = 64,
                      .vocab = 64,
                      .ffn = 256,
                      .compute = DType::kBF16,
                      .tied = true};
  const LogicalGraph model = toy_gpt(config);
  const std::int64_t layer = 4 * 64 * 64 + 2 * 64 * 256;
  const std::int64_t all = 8 * layer + 64 * 64;
  const auto peak_of = [&](int zero) {
    return peak(model, "dp=4 micro_batch=1 zero=" + std::to_string(zero));
  };
  const auto whole = peak_of(0), one = peak_of(1), two = peak_of(2), three = peak_of(3);
  // Master and two moments in f32. What is above them are the parameters that stay whole.
  const std::int64_t small = bytes(whole, MemoryClass::kOptimizer) - 12 * all;
  CHECK(small >= 0);
  CHECK(small < 12 * all / 30);
  for (const auto& sharded : {one, two, three})
    CHECK(bytes(sharded, MemoryClass::kOptimizer) == 12 * all / 4 + small);
  // Whole until stage 3, the compute copy in bf16 beside its part; at the peak the copies of the
  // last layers are gone.
  const auto parameters = [](const std::vector<Bytes>& p) {
    return bytes(p, MemoryClass::kParameters);
  };
  CHECK(parameters(whole) > 2 * all - 2 * 2 * layer);
  CHECK(parameters(whole) <= 2 * all + small);
  for (const auto& p : {one, two}) {
    CHECK(parameters(p) > 2 * all - 2 * 2 * layer);
    CHECK(parameters(p) <= 2 * all / 4 + 2 * all + small);
  }
  // Two layers at a time are gathered.
  CHECK(parameters(three) > 2 * all / 4);
  CHECK(parameters(three) <= 2 * all / 4 + 2 * 2 * layer + small);
  // Gradients in f32, of which stage 2 keeps parts.
  const auto gradients = [](const std::vector<Bytes>& p) {
    return bytes(p, MemoryClass::kGradients);
  };
  CHECK(gradients(whole) >= 4 * all);
  CHECK(gradients(one) >= 4 * all);
  for (const auto& p : {two, three}) CHECK(gradients(p) <= 4 * all / 4 + small / 2);
}

// --- split sequences -----------------------------------------------------------------------------

TEST_CASE("sp=on moves what all-reduce moves, as reduce-scatter and all-gather") {
  const auto count = [](const StagedGraph& graph, Primitive primitive) {
    std::map<std::string, int> counts;
    for (const StagedOp& op : graph.ops)
      if (op.communication && op.communication->primitive == primitive &&
          op.rate == Rate::kPerMicroBatch && tensor(graph, op.in[0]).global.shape.rank() == 3)
        ++counts[is_forward(op) ? "forward" : "backward"];
    return counts;
  };
  // Two per layer and the embedding in forward, two per layer and the head in backward.
  const StagedGraph whole = stage(toy_gpt({}), "tp=2 micro_batch=4");
  CHECK(count(whole, Primitive::kAllReduce)["forward"] == 2 * 2 + 1);
  CHECK(count(whole, Primitive::kAllReduce)["backward"] == 2 * 2 + 1);
  const StagedGraph split = stage(toy_gpt({}), "tp=2 micro_batch=4 sp=on");
  CHECK(count(split, Primitive::kAllReduce).empty());
  CHECK(count(split, Primitive::kReduceScatter)["forward"] == 2 * 2 + 1);
  CHECK(count(split, Primitive::kAllGather)["forward"] == 2 * 2 + 1);
  CHECK(count(split, Primitive::kReduceScatter)["backward"] == 2 * 2 + 1);
  // The gradients of what was scattered are gathered, and what forward gathered is gathered again
  // for the weights' gradients instead of being kept.
  CHECK(count(split, Primitive::kAllGather)["backward"] == 2 * (2 * 2 + 1));
}

TEST_CASE("sp=on splits the residual stream, norms and embedding of every layer by their role") {
  const StagedGraph graph = stage(toy_gpt({}), "tp=2 micro_batch=4 sp=on");
  std::set<std::string> whole;
  for (const StagedTensor& t : graph.tensors)
    if (is_forward(producer(graph, t)) && !producer(graph, t).communication &&
        t.global.shape == Shape{4, 6, 8} && t.words[1].is_broadcast())
      whole.insert(t.name);
  CHECK(whole.empty());
}

TEST_CASE("sp=on without a sequence that tp leaves whole is refused") {
  CHECK_THROWS_WITH_AS(stage(toy_mlp(4, 6, 8, 5), "tp=2 micro_batch=4 sp=on"),
                       doctest::Contains("no activation of the model has a sequence"), Error);
  // Nothing to split it over.
  CHECK(stage(toy_gpt({}), "dp=2 micro_batch=2 sp=on").ops.size() ==
        stage(toy_gpt({}), "dp=2 micro_batch=2").ops.size());
}

TEST_CASE("G33: the gradient of a whole norm weight beside a split sequence is partial") {
  const StagedGraph graph = stage(toy_gpt({}), "tp=2 micro_batch=4 sp=on");
  const StagedOp& gradient = find(graph, "layer0.norm1.grad_weight");
  CHECK(to_string(tensor(graph, gradient.out[0]).words) == "(B, P(sum))");
  CHECK(to_string(tensor(graph, find(graph, "layer0.norm1.gamma.adamw").in[0]).words) == "(B, B)");
  CHECK(find(graph, "layer0.norm1.grad_weight.all_reduce").rate == Rate::kPerStep);
}

// --- spread experts ------------------------------------------------------------------------------

// Embedding, one layer of 4 experts of 32 x 48, head and loss. An expert has places for `capacity`
// of the 4 tokens of a sample.
LogicalGraph toy_experts(std::int64_t capacity = 2) {
  constexpr std::int64_t kBatch = 4, kSequence = 4, kHidden = 32, kVocab = 40, kExperts = 4;
  LogicalGraph graph(builtin_operators());
  const auto op = [&](std::string kind, std::string name, std::vector<TensorId> inputs,
                      Attributes attributes = {}) {
    return graph.output(graph.add({.kind = std::move(kind),
                                   .name = std::move(name),
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .parameter = std::nullopt}));
  };
  const auto parameter = [&](const std::string& name, const Shape& shape, bool is_expert) {
    ParameterInfo info;
    if (is_expert) info.expert_parallel_dim = 0;
    return add_parameter(graph, name, 0, {shape, DType::kF32}, info);
  };
  const auto reshape = [&](std::string name, TensorId x, std::vector<std::int64_t> shape) {
    return op("reshape", std::move(name), {x}, {{"shape", std::move(shape)}});
  };
  const TensorType ids{{kBatch, kSequence}, DType::kI32};
  const TensorId table = parameter("table", {kVocab, kHidden}, false);
  const TensorId x =
      op("embedding", "rows", {add_input(graph, "ids", 0, ids, {kVocab, {}}), table});
  const TensorId scores =
      op("matmul", "router", {x, parameter("router.w", {kHidden, kExperts}, false)});
  const Routing routing =
      route_top_k(graph, softmax(graph, scores, -1, "router.weights", 0), 1, "router", 0);
  TensorId y = dispatch_tokens(graph, x, routing, capacity, "dispatch", 0);
  y = reshape("dispatched", y, {kExperts, kBatch * capacity, kHidden});
  y = op("batch_matmul", "up", {y, parameter("up.w", {kExperts, kHidden, 48}, true)});
  y = op("gelu", "gelu", {y}, {{"approximate", std::string("tanh")}});
  y = op("batch_matmul", "down", {y, parameter("down.w", {kExperts, 48, kHidden}, true)});
  y = reshape("computed", y, {kExperts, kBatch, capacity, kHidden});
  y = op("add", "residual", {x, combine_tokens(graph, y, routing, "combine", 0)});
  const TensorId logits = op("matmul", "logits", {y, table}, {{"transpose_w", true}});
  const TensorId labels = add_input(graph, "labels", 0, ids, {kVocab, -100});
  const LossTensors loss = softmax_cross_entropy(graph, logits, labels, "loss", 0);
  graph.set_loss(loss.loss_sum, loss.token_count);
  return graph;
}

TEST_CASE(
    "tokens go to spread experts and back by two all-to-alls over ep, gradients by two more") {
  const StagedGraph graph = stage(toy_experts(), "dp=4 ep=2 micro_batch=1");
  CHECK(to_string(graph.placements[0]) == "[dp=2, ep=2, tp=1]");
  CHECK(to_string(tensor(graph, find(graph, "ids").out[0]).words) == "(S(0), S(0), B)");
  CHECK(to_string(tensor(graph, find(graph, "dispatch").out[0]).words) == "(S(1), S(1), B)");
  CHECK(to_string(tensor(graph, find(graph, "up").in[0]).words) == "(S(1), S(0), B)");
  CHECK(to_string(tensor(graph, find(graph, "up").out[0]).words) == "(S(1), S(0), B)");
  std::map<std::string, int> exchanges;
  for (const StagedOp& op : graph.ops) {
    if (!op.communication || op.rate == Rate::kPerStep) continue;
    CHECK(op.communication->primitive == Primitive::kAllToAll);
    CHECK(op.communication->group_axes == std::vector<std::size_t>{1});
    ++exchanges[is_forward(op) ? "forward" : "backward"];
  }
  CHECK(exchanges == std::map<std::string, int>{{"forward", 2}, {"backward", 2}});
}

TEST_CASE("experts are replicated over dp alone, all other parameters over dp and ep") {
  const auto words = [](const StagedGraph& graph, const std::string& parameter) {
    return to_string(tensor(graph, find(graph, parameter + ".adamw").out[0]).words);
  };
  const StagedGraph whole = stage(toy_experts(), "dp=4 ep=2 micro_batch=1");
  CHECK(words(whole, "up.w") == "(B, S(0), B)");
  CHECK(words(whole, "table") == "(B, B, B)");
  const StagedGraph sharded = stage(toy_experts(), "dp=4 ep=2 micro_batch=1 zero=3");
  CHECK(words(sharded, "up.w") == "(S(1), S(0), B)");
  CHECK(words(sharded, "table") == "(S(0), S(0), B)");
  CHECK(words(sharded, "router.w") == "(B, B, B)");
}

// With one place for each sample the 4 experts get 4 x 4 tokens, the extents of batch and sequence.
TEST_CASE("sp=on takes what experts get for no sequence, whatever extents it has") {
  for (const auto& [spread, words] :
       {std::pair(std::string(), "(S(1), B)"), {std::string(" ep=2"), "(B, S(1), B)"}}) {
    const StagedGraph graph = stage(toy_experts(1), "dp=2 tp=2 micro_batch=2 sp=on" + spread);
    const StagedTensor& got = tensor(graph, find(graph, "dispatched").out[0]);
    CHECK(got.global.shape == Shape{4, 4, 32});
    CHECK(to_string(got.words) == words);
    CHECK(to_string(tensor(graph, find(graph, "rows").out[0]).words.back()) == "S(1)");
  }
}

TEST_CASE("ep without experts is refused") {
  CHECK_THROWS_WITH_AS(stage(toy_gpt({}), "dp=2 ep=2 micro_batch=2"),
                       doctest::Contains("no parameter of the model has a dim of experts"), Error);
}

}  // namespace
}  // namespace sextant::zero_test
