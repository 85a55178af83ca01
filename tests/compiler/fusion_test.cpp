// Which groups become one operator, which do not, and what the one operator costs: counted by hand
// on a GPT and on chains of a few operators.
#include "compiler/words/fusion.h"

#include "compiler/expand/expand.h"
#include "compiler/training/dead_operators.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "core/graphs/fused_kinds.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"
#include "tests/compiler/toy_chain.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace sextant::fusion_test {
namespace {

// A device with these fused kinds.
class FusingCost : public testing::ToyCost {
 public:
  explicit FusingCost(std::vector<std::string> kinds = fused_kind_names())
      : kinds_(std::move(kinds)) {}
  bool fuses(std::string_view kind) const override {
    return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end();
  }

 private:
  std::vector<std::string> kinds_;
};

ToyGpt config() {
  ToyGpt gpt;
  gpt.sequence = 16;
  gpt.hidden = 16;
  gpt.vocab = 16;
  gpt.ffn = 32;
  return gpt;
}

StagedGraph fused_graph(StagedGraph graph, const CostModel& cost,
                        Schedule schedule = Schedule::kOneFOneB) {
  return fuse_operators(std::move(graph), cost, schedule);
}

StagedGraph gpt(const std::string& text) {
  const Strategy strategy = parse_strategy(text);
  return make_staged_graph(make_training_graph(toy_gpt(config()), strategy), strategy, 2, nullptr);
}

// "kind: member member", a line per operator of one layer, in order.
std::string fused_in(const StagedGraph& graph, int layer) {
  std::string texts;
  for (const StagedOp& op : graph.ops) {
    if (op.members.empty() || op.layer != layer) continue;
    std::string text = op.kind + ":";
    for (const StagedMember& member : op.members) text += " " + member.name;
    texts += text + "\n";
  }
  return texts;
}

const StagedOp& find(const StagedGraph& graph, const std::string& name) {
  const auto at = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const StagedOp& op) { return op.name == name; });
  if (at == graph.ops.end()) FAIL("no operator " << name);
  return *at;
}

std::vector<std::string> names(const StagedGraph& graph,
                               const std::vector<StagedTensorId>& tensors) {
  std::vector<std::string> result;
  for (const StagedTensorId tensor : tensors) result.push_back(graph.tensors[tensor].name);
  return result;
}

TEST_CASE("a block of a GPT on one device has these fused operators") {
  const StagedGraph graph = fused_graph(gpt("micro_batch=4"), FusingCost());
  CHECK(validate(graph) == std::vector<std::string>());
  CHECK(fused_in(graph, 1) ==
        "matmul_bias: layer0.q layer0.q.bias\n"
        "matmul_bias: layer0.k layer0.k.bias\n"
        "matmul_bias: layer0.v layer0.v.bias\n"
        "matmul_bias_add: layer0.o layer0.o.bias layer0.residual1\n"
        "matmul_bias_gelu: layer0.up layer0.up.bias layer0.gelu\n"
        "matmul_bias_add: layer0.down layer0.down.bias layer0.residual2\n"
        "matmul_grad_weight_bias: layer0.down.grad_weight layer0.down.bias.grad_weight\n"
        "matmul_gelu_grad: layer0.down.grad_input layer0.gelu.grad_input\n"
        "matmul_grad_weight_bias: layer0.up.grad_weight layer0.up.bias.grad_weight\n"
        "layer_norm_grads_add_bias: layer0.norm2.grad_input layer0.residual1.grad_sum"
        " layer0.norm2.grad_weight layer0.o.bias.grad_weight\n"
        "matmul_grad_weight_bias: layer0.v.grad_weight layer0.v.bias.grad_weight\n"
        "matmul_add: layer0.v.grad_input layer0.norm1.grad_sum\n"
        "matmul_grad_weight_bias: layer0.k.grad_weight layer0.k.bias.grad_weight\n"
        "matmul_add: layer0.q.grad_input layer0.norm1.grad_sum_2\n"
        "matmul_grad_weight_bias: layer0.q.grad_weight layer0.q.bias.grad_weight\n"
        "layer_norm_grads_add: layer0.norm1.grad_input embedding.add_positions.grad_sum"
        " layer0.norm1.grad_weight\n");
}

TEST_CASE("gradients for inputs and of weights join unless the schedule parts them") {
  for (const std::string schedule : {"1f1b", "gpipe", "zb-h1"}) {
    CAPTURE(schedule);
    const Strategy strategy = parse_strategy("micro_batch=4 schedule=" + schedule);
    const StagedGraph graph = fused_graph(gpt("micro_batch=4"), FusingCost(), strategy.schedule);
    CHECK(validate(graph) == std::vector<std::string>());
    std::map<std::string, int> kinds;
    for (const StagedOp& op : graph.ops) {
      ++kinds[op.kind];
      if (!op.members.empty() && find_fused_kind(op.kind)->joins_gradients)
        CHECK(op.phase == Phase::kInputGrad);
    }
    const bool is_parted = schedule == "zb-h1";
    CHECK(kinds["layer_norm_grads"] == (is_parted ? 0 : 1));  // the last norm adds nothing
    CHECK(kinds["layer_norm_grads_add"] == (is_parted ? 0 : 2));
    CHECK(kinds["layer_norm_grads_add_bias"] == (is_parted ? 0 : 2));
    CHECK(kinds["layer_norm_grad_add"] == (is_parted ? 4 : 0));
    CHECK(kinds["layer_norm_grad_weight"] == (is_parted ? 5 : 0));
    CHECK(kinds["matmul_grad_weight_bias"] == (is_parted ? 12 : 10));
  }
}

TEST_CASE("inside is what only members read; the rest are operands, in order of the members") {
  const StagedGraph graph = fused_graph(gpt("micro_batch=4"), FusingCost());
  using Names = std::vector<std::string>;
  const StagedOp& up = find(graph, "layer0.gelu");
  CHECK(names(graph, up.in) == Names{"layer0.norm2", "layer0.up.w", "layer0.up.b"});
  CHECK(names(graph, up.out) == Names{"layer0.up.bias", "layer0.gelu"});  // its gradient reads x
  CHECK(names(graph, up.inner) == Names{"layer0.up"});
  const StagedGraph with_norm =
      fused_graph(gpt("micro_batch=4"), FusingCost({"matmul_bias", "add_layer_norm"}));
  const StagedOp& norm = find(with_norm, "layer0.norm2");
  CHECK(names(with_norm, norm.in) == Names{"embedding.add_positions", "layer0.o.bias",
                                           "layer0.norm2.gamma", "layer0.norm2.beta"});
  CHECK(names(with_norm, norm.out) ==
        Names{"layer0.residual1", "layer0.norm2", "layer0.norm2:1", "layer0.norm2:2"});
  CHECK(norm.inner.empty());
}

TEST_CASE("a communication is never inside a fused operator") {
  // Over tp the rows of `o` and `down` are summed between the product and its bias.
  const StagedGraph plain = gpt("tp=2 micro_batch=4");
  const StagedGraph graph = fused_graph(plain, FusingCost());
  CHECK(validate(graph) == std::vector<std::string>());
  CHECK(fused_in(graph, 1).find("layer0.o ") == std::string::npos);
  CHECK(fused_in(graph, 1).find("layer0.down ") == std::string::npos);
  CHECK(find(graph, "layer0.gelu").kind == "matmul_bias_gelu");
  for (const StagedOp& op : graph.ops)
    if (!op.members.empty()) CHECK_FALSE(op.communication.has_value());
}

TEST_CASE("taken apart, fused graphs are the graphs they were made of") {
  for (const std::string text :
       {"micro_batch=4", "dp=2 tp=2 micro_batch=2 zero=1", "pp=2 tp=2 micro_batch=4 schedule=zb-h1",
        "dp=2 micro_batch=2 recompute=full"}) {
    CAPTURE(text);
    const StagedGraph plain = gpt(text);
    const StagedGraph graph = fused_graph(plain, FusingCost(), parse_strategy(text).schedule);
    CHECK(validate(graph) == std::vector<std::string>());
    CHECK(graph.ops.size() < plain.ops.size());
    struct Whole {
      std::string kind;
      std::vector<StagedTensorId> in, out;
      Attributes attributes;
      bool operator==(const Whole&) const = default;
    };
    std::map<std::string, Whole> before, after;
    for (const StagedOp& op : plain.ops) before[op.name] = {op.kind, op.in, op.out, op.attributes};
    for (const StagedOp& op : graph.ops) {
      if (op.members.empty()) after[op.name] = {op.kind, op.in, op.out, op.attributes};
      for (const StagedMember& member : op.members) {
        after[member.name] = {member.kind, member.in, member.out, member.attributes};
        const StagedOp& original = find(plain, member.name);
        if (find_fused_kind(op.kind)->joins_gradients && original.phase == Phase::kWeightGrad)
          CHECK(op.phase == Phase::kInputGrad);
        else
          CHECK(original.phase == op.phase);
        CHECK(original.layer == op.layer);
        CHECK(original.stage == op.stage);
        CHECK(original.rate == op.rate);
      }
    }
    CHECK(before == after);
  }
}

TEST_CASE("only what the device has is fused") {
  const StagedGraph plain = gpt("micro_batch=4");
  CHECK(to_text(fused_graph(plain, FusingCost(std::vector<std::string>()))) == to_text(plain));
  const StagedGraph some = fused_graph(plain, FusingCost({"bias_gelu"}));
  CHECK(fused_in(some, 1) == "bias_gelu: layer0.up.bias layer0.gelu\n");
}

// A forward graph of operators on x [4, 8], staged on one device.
class Chain {
 private:
  LogicalGraph graph_{builtin_operators()};

 public:
  const TensorId x = add_input(graph_, "x", 0, {{4, 8}, DType::kF32});

  TensorId add(std::string kind, std::string name, std::vector<TensorId> inputs,
               Attributes attributes = {}, int layer = 0, Phase phase = Phase::kForward) {
    return graph_.output(graph_.add({.kind = std::move(kind),
                                     .name = std::move(name),
                                     .attributes = std::move(attributes),
                                     .inputs = std::move(inputs),
                                     .outputs = {},
                                     .phase = phase,
                                     .layer = layer,
                                     .parameter = std::nullopt}));
  }
  std::set<std::string> fused() const {
    const StagedGraph graph = fused_graph(
        make_staged_graph(graph_, parse_strategy("micro_batch=4"), 2, nullptr), FusingCost());
    CHECK(validate(graph) == std::vector<std::string>());
    std::set<std::string> kinds;
    for (const StagedOp& op : graph.ops)
      if (!op.members.empty()) kinds.insert(op.kind);
    return kinds;
  }
};

const std::vector<std::int64_t> kLastDim = {1};
const Attributes kToBf16 = {{"dtype", std::string("bf16")}}, kHalf = {{"factor", 0.5}};

TEST_CASE("chains of casts, scales, gates and dropout are fused") {
  Chain chain;
  const TensorId cast = chain.add("cast", "cast", {chain.x}, kToBf16);
  chain.add("scale", "scale", {cast}, kHalf);
  const TensorId silu = chain.add("silu", "silu", {chain.x});
  chain.add("mul", "mul", {chain.x, silu});
  const TensorId dropped =
      chain.add("dropout", "dropout", {chain.x}, {{"rate", 0.5}, {"stream", std::string("d")}});
  chain.add("add", "sum", {chain.x, dropped});
  CHECK(chain.fused() == std::set<std::string>{"cast_scale", "silu_mul", "dropout_add"});
}

TEST_CASE("a longer group is found behind the beginning of a shorter one that wants its members") {
  // Backward of silu(gate) up: the gradient of silu comes first and would do with two members.
  for (const bool up_first : {false, true}) {
    Chain chain;
    const TensorId dy = chain.add("relu", "dy", {chain.x});
    const TensorId gate = chain.add("tanh", "gate", {chain.x});
    const auto add_up = [&] { chain.add("mul", "of up", {dy, chain.x}); };
    if (up_first) add_up();
    const TensorId product = chain.add("mul", "of silu", {dy, gate});
    if (!up_first) add_up();
    chain.add("silu_grad", "grad", {gate, product});
    CHECK(chain.fused() == std::set<std::string>{"mul_mul_silu_grad"});
  }
  Chain twisted;  // the member named first reads what its sibling makes
  const TensorId shared = twisted.add("relu", "dy", {twisted.x});
  const TensorId inner = twisted.add("mul", "inner", {shared, twisted.x});
  twisted.add("silu_grad", "grad", {twisted.x, inner});
  twisted.add("mul", "outer", {shared, inner});
  CHECK(twisted.fused() == std::set<std::string>{"mul_silu_grad"});
  Chain early;  // what the gradient of up gives is read before the group is over
  const TensorId dy = early.add("relu", "dy", {early.x});
  const TensorId product = early.add("mul", "of silu", {dy, early.x});
  early.add("tanh", "reader", {early.add("mul", "of up", {dy, early.x})});
  early.add("silu_grad", "grad", {early.x, product});
  CHECK(early.fused() == std::set<std::string>{"mul_silu_grad"});
}

TEST_CASE("what somebody reads before the chain is over keeps the chain apart") {
  Chain between;
  const TensorId cast = between.add("cast", "cast", {between.x}, kToBf16);
  between.add("relu", "early", {cast});
  between.add("scale", "scale", {cast}, kHalf);
  CHECK(between.fused().empty());
  Chain behind;
  const TensorId other = behind.add("cast", "cast", {behind.x}, kToBf16);
  behind.add("scale", "scale", {other}, kHalf);
  behind.add("relu", "late", {other});
  CHECK(behind.fused() == std::set<std::string>{"cast_scale"});
  // Through another operator the last member depends on the first one: it is no chain.
  Chain around;
  const TensorId silu = around.add("silu", "silu", {around.x});
  const TensorId relu = around.add("relu", "relu", {silu});
  around.add("mul", "mul", {silu, relu});
  CHECK(around.fused().empty());
}

TEST_CASE("members are of one layer and phase, and read the link once, where the kind says") {
  Chain layers;
  layers.add("scale", "scale", {layers.add("cast", "cast", {layers.x}, kToBf16)}, kHalf, 1);
  CHECK(layers.fused().empty());
  Chain phases;
  phases.add("scale", "scale", {phases.add("cast", "cast", {phases.x}, kToBf16)}, kHalf, 0,
             Phase::kWeightGrad);
  CHECK(phases.fused().empty());
  Chain twice;
  const TensorId silu = twice.add("silu", "silu", {twice.x});
  twice.add("mul", "square", {silu, silu});
  CHECK(twice.fused().empty());
  Chain place;  // as x of silu_grad, not as dy
  const TensorId product = place.add("mul", "product", {place.x, place.x});
  place.add("silu_grad", "grad", {product, place.x});
  CHECK(place.fused().empty());
}

TEST_CASE("siblings read one tensor where the kind says, in either order") {
  const auto fused = [](bool bias_first, int summed, bool is_read_between) {
    Chain chain;
    const TensorId dy = chain.add("relu", "dy", {chain.x});
    const TensorId x = chain.add("tanh", "factor", {chain.x});
    const auto add_bias = [&] {
      const TensorId bias = chain.add("reduce_to_bias", "bias", {summed == 1 ? dy : x});
      if (is_read_between) chain.add("relu", "early", {bias});
    };
    if (bias_first) add_bias();
    chain.add("matmul_grad_weight", "weight", {x, dy});
    if (!bias_first) add_bias();
    return chain.fused();
  };
  const std::set<std::string> both = {"matmul_grad_weight_bias"};
  CHECK(fused(false, 1, false) == both);
  CHECK(fused(true, 1, false) == both);
  CHECK(fused(false, 1, true) == both);  // the bias is the last of them, so nothing is between
  CHECK(fused(true, 1, true).empty());
  CHECK(fused(true, 0, false).empty());  // the sum of the other factor
}

// Two norms whose results are added have one dy; their gradients are in the phases of a step.
TEST_CASE("a weight's gradient joins where it reads what the gradient for the input reads") {
  const auto fused = [](bool of_own_rows, bool is_added) {
    Chain chain;
    const auto of_scale = [&](const std::string& name, double factor) {
      return chain.add("scale", name, {chain.x}, {{"factor", factor}});
    };
    const TensorId other = of_scale("other rows", 0.5), dy = of_scale("dy", 2);
    const TensorId gamma = chain.add("reduce_to_bias", "gamma", {chain.x});
    const TensorId rstd = chain.add("reduce_sum", "rstd", {chain.x}, {{"dims", kLastDim}});
    const TensorId dx = chain.add("rms_norm_grad_input", "dx", {chain.x, gamma, rstd, dy}, {}, 0,
                                  Phase::kInputGrad);
    chain.add("rms_norm_grad_weight", "dgamma", {of_own_rows ? chain.x : other, rstd, dy}, {}, 0,
              Phase::kWeightGrad);
    if (is_added) chain.add("add", "sum", {dy, dx}, {}, 0, Phase::kInputGrad);
    return chain.fused();
  };
  CHECK(fused(true, true) == std::set<std::string>{"rms_norm_grads_add"});
  CHECK(fused(true, false) == std::set<std::string>{"rms_norm_grads"});
  CHECK(fused(false, true) == std::set<std::string>{"rms_norm_grad_add"});
  CHECK(fused(false, false).empty());
}

// Whether the members are what the table says, by the definition and nothing else.
bool is_group(const FusedKind& kind, const std::vector<StagedMember>& members) {
  const auto links = kind.members();
  if (links.size() != members.size()) return false;
  for (std::size_t i = 0; i < links.size(); ++i) {
    if (members[i].kind != links[i].kind) return false;
    if (i == 0) continue;
    const StagedMember &before = members[links[i].before(i)], &member = members[i];
    const auto reads_at = static_cast<std::size_t>(links[i].reads_at);
    if (links[i].shares) {
      if (member.in.at(reads_at) != before.in.at(static_cast<std::size_t>(*links[i].shares)))
        return false;
      continue;
    }
    const StagedTensorId made = before.out.front();
    if (std::count(member.in.begin(), member.in.end(), made) != 1) return false;
    if (links[i].reads_at >= 0 && member.in.at(reads_at) != made) return false;
  }
  return true;
}

// Square tensors, so that any operator may read any of them.
LogicalGraph random_graph(std::uint64_t seed) {
  LogicalGraph graph{builtin_operators()};
  const TensorType square{{4, 4}, DType::kF32}, row{{4}, DType::kF32};
  std::vector<TensorId> squares = {add_input(graph, "x", 0, square)};
  const TensorId bias = add_input(graph, "b", 0, row);
  std::mt19937_64 random(seed);
  const auto any = [&] { return squares[random() % squares.size()]; };
  // Often the newest, so that chains come up.
  const auto recent = [&] { return random() % 8 > 0 ? squares.back() : any(); };
  const std::vector<std::string> kinds = {
      "matmul", "matmul", "bias_add", "gelu", "gelu_grad",      "add",
      "add",    "silu",   "dropout",  "mul",  "reduce_to_bias", "matmul_grad_weight",
      "scale",  "mul",    "silu_grad"};
  for (int op = 0; op < 24; ++op) {
    const std::string& kind = kinds[random() % kinds.size()];
    std::vector<TensorId> inputs = {recent()};
    Attributes attributes;
    if (kind == "bias_add") inputs.push_back(bias);
    if (kind == "matmul" || kind == "gelu_grad" || kind == "add" || kind == "mul" ||
        kind == "matmul_grad_weight" || kind == "silu_grad")
      inputs.insert(random() % 2 == 0 ? inputs.begin() : inputs.end(), any());
    if (kind.starts_with("gelu")) attributes.set("approximate", std::string("tanh"));
    if (kind == "scale") attributes.set("factor", 0.5);
    if (kind == "dropout") attributes = {{"rate", 0.5}, {"stream", std::string("d")}};
    const TensorId out = graph.output(graph.add({.kind = kind,
                                                 .name = kind + std::to_string(op),
                                                 .attributes = attributes,
                                                 .inputs = inputs,
                                                 .outputs = {},
                                                 .layer = 0,
                                                 .parameter = std::nullopt}));
    if (kind != "reduce_to_bias") squares.push_back(out);
  }
  return graph;
}

TEST_CASE("in random graphs every fused operator is of the table and everything is made in time") {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    const StagedGraph plain =
        make_staged_graph(random_graph(seed), parse_strategy("micro_batch=4"), 2, nullptr);
    const StagedGraph graph = fused_graph(plain, FusingCost());
    CHECK(validate(graph) == std::vector<std::string>());
    std::set<StagedTensorId> made;
    std::size_t ops = 0;
    const auto act = [&](const std::vector<StagedTensorId>& in,
                         const std::vector<StagedTensorId>& out) {
      for (const StagedTensorId tensor : in) CHECK(made.contains(tensor));
      for (const StagedTensorId tensor : out) CHECK(made.insert(tensor).second);
      ++ops;
    };
    for (const StagedOp& op : graph.ops) {
      if (op.members.empty()) {
        act(op.in, op.out);
        continue;
      }
      ++seen[op.kind];
      CHECK(is_group(*find_fused_kind(op.kind), op.members));
      for (const StagedMember& member : op.members) act(member.in, member.out);
    }
    CHECK(ops == plain.ops.size());
  }
  for (const char* kind :
       {"matmul_bias_gelu", "matmul_bias_add", "matmul_bias", "matmul_add", "matmul_gelu_grad",
        "matmul_grad_weight_bias", "bias_dropout_add", "mul_silu_grad"})
    CHECK_MESSAGE(seen[kind] > 5, kind);
  CHECK(seen["mul_mul_silu_grad"] > 0);  // three operators that seldom meet
}

// [64, 16] x [16, 32], a bias and gelu: multiply-adds count twice, and what is inside moves no
// bytes.
TEST_CASE("a fused operator costs the calculation of its members and its own operands") {
  const auto works = [](const CostModel& cost) {
    std::map<std::string, Work> by_name;
    const PhysicalGraph graph =
        expand(gpt("micro_batch=4"), cost, testing::ToyNetwork(3, 2), ExpandOptions());
    for (const Instance& instance : graph.programs[ProgramId(0)].instances) {
      if (instance.layer != 1) continue;
      for (const Actor& actor : graph.block_of(instance).actors) by_name[actor.name] = actor.work;
    }
    return by_name;
  };
  const auto fused = works(FusingCost()), apart = works(testing::ToyCost());
  const Work& whole = fused.at("gelu");
  CHECK_FALSE(fused.contains("up"));
  constexpr std::int64_t kX = 64 * 16 * 4, kW = 16 * 32 * 4, kB = 32 * 4, kY = 64 * 32 * 4;
  CHECK(whole.read == Bytes(kX + kW + kB));
  CHECK(whole.written == Bytes(2 * kY));  // gelu, and its input for backward
  CHECK(apart.at("up").flops == 2.0 * 64 * 16 * 32);
  CHECK(whole.flops == apart.at("up").flops + apart.at("up.bias").flops + apart.at("gelu").flops);
  CHECK(whole.kernel == "matmul:64x32x16");
  CHECK((apart.at("up").read + apart.at("up.bias").read + apart.at("gelu").read) ==
        Bytes(kX + kW + kB + 2 * kY));
}

TEST_CASE("operators that nothing depends on are removed, and nothing else") {
  LogicalGraph forward = toy_mlp(4, 4, 8, 4);
  const LogicalGraph clean = make_training_graph(forward);
  const TensorId gelu = forward.output(*forward.find_op("gelu"));
  forward.add({.kind = "relu",
               .name = "unread",
               .attributes = {},
               .inputs = {gelu},
               .outputs = {},
               .layer = 1,
               .parameter = std::nullopt});
  const LogicalGraph training = make_training_graph(forward);
  CHECK_FALSE(training.find_op("unread").has_value());
  REQUIRE(training.ops().size() == clean.ops().size());
  for (std::size_t i = 0; i < clean.ops().size(); ++i)
    CHECK(training.ops()[i].name == clean.ops()[i].name);
  CHECK(training.tensor(*training.loss_sum()).name == clean.tensor(*clean.loss_sum()).name);
}

TEST_CASE("fused kinds have names of their own, longer chains come before their beginnings") {
  std::set<std::string_view> seen;
  for (const FusedKind& kind : fused_kinds()) {
    CAPTURE(std::string(kind.kind));
    CHECK(builtin_operators().find(kind.kind) == nullptr);
    CHECK(seen.insert(kind.kind).second);
    CHECK(kind.members().size() >= 2);
    for (const FusedKind::Link& link : kind.members()) {
      const OperatorDef& def = builtin_operators().get(link.kind);
      CHECK(link.reads_at < static_cast<int>(def.max_inputs));
      const auto number = static_cast<std::size_t>(&link - kind.members().data());
      if (link.shares) {
        CHECK(number > 0);
        CHECK(link.reads_at >= 0);
      }
      if (link.behind) CHECK(*link.behind < number);
      CHECK(def.state_outputs.empty());
    }
    for (const FusedKind& later : fused_kinds())
      if (&later > &kind) CHECK(later.members().size() <= kind.members().size());
    CHECK(find_fused_kind(kind.kind) == &kind);
  }
  CHECK(find_fused_kind("matmul") == nullptr);
}

}  // namespace
}  // namespace sextant::fusion_test
