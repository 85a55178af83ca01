// The optimizer as text, and what its pass puts between gradients and parameters.
#include "compiler/training/optimizer.h"

#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"
#include "core/operators/training/learning_rate.h"
#include "tests/compiler/toy_chain.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace sextant::optimizer_test {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_optimizer(text);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kUsage);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("an optimizer survives the way through its text, and says no more than it must") {
  for (const char* text :
       {"adamw lr=0.0003", "sgd lr=0.1 decay=0", "momentum lr=0.1 momentum=0.5 nesterov=on",
        "adamw lr=0.0003 warmup=100 schedule=cosine steps=1000 min_lr=3e-05 clip=1",
        "lamb lr=0.01 schedule=linear steps=10 beta1=0.5 beta2=0.75 eps=1e-06",
        "adamw lr=0.0003 loss_scale=dynamic scale_growth=4 scale_backoff=0.25 scale_interval=7",
        "adamw lr=0.0003 loss_scale=dynamic:8", "sgd lr=1 loss_scale=1024",
        "sgd lr=1 loss_scale=none", "adamw lr=0.0003 gradients=compute"}) {
    CHECK(to_string(parse_optimizer(text)) == text);
    CHECK(parse_optimizer(to_string(parse_optimizer(text))) == parse_optimizer(text));
  }
  CHECK(to_string(OptimizerOptions()) == "adamw lr=0.0003");
  CHECK(parse_optimizer(" adamw\tlr=3e-4\n") == OptimizerOptions());
  CHECK(parse_optimizer("adamw lr=0.1234567890123456789").learning_rate == 0.1234567890123456789);
}

TEST_CASE("what an optimizer cannot be is refused with the nearest that it can") {
  using doctest::Contains;
  const std::pair<const char*, const char*> cases[] = {
      {"", "nothing given"},
      {"adam lr=1",
       "'adam' is unknown, wanted sgd, momentum, adamw, lamb first, did you mean 'adamw'?"},
      {"lr=1", "'lr=1' is unknown"},
      {"adamw lr", "'lr' is not key=value"},
      {"adamw lr=", "'lr=' is not key=value"},
      {"adamw lr=1e", "lr=1e, wanted a finite number"},
      {"adamw lr=inf", "lr=inf, wanted a finite number"},
      {"adamw lr=0", "lr=0, wanted a number above 0"},
      {"adamw lr=1 lr=2", "lr is given twice"},
      {"adamw warm_up=3", "unknown key 'warm_up', did you mean 'warmup'?"},
      {"adamw warmup=-1", "warmup=-1, wanted a whole number"},
      {"adamw warmup=1.5", "warmup=1.5, wanted a whole number"},
      {"adamw schedule=cosin", "wanted constant, linear, cosine, did you mean 'cosine'?"},
      {"adamw schedule=cosine", "steps=0, wanted more than warmup=0"},
      {"adamw schedule=linear warmup=5 steps=5", "steps=5, wanted more than warmup=5"},
      {"adamw schedule=linear steps=5 min_lr=1", "min_lr=1, wanted 0 to lr=0.0003"},
      {"adamw steps=100", "steps belongs to schedule=linear and cosine"},
      {"sgd beta1=0.5", "beta1 belongs to adamw and lamb, but this is 'sgd beta1=0.5'"},
      {"adamw momentum=0.5", "momentum belongs to momentum"},
      {"adamw beta2=1", "beta2=1, wanted from 0 to below 1"},
      {"adamw eps=0", "eps=0, wanted a number above 0"},
      {"adamw decay=-1", "decay=-1, wanted 0 or more"},
      {"adamw clip=-1", "clip=-1, wanted 0 (no clipping) or more"},
      {"momentum nesterov=yes", "nesterov=yes, wanted on or off"},
      {"adamw loss_scale=dyn", "loss_scale=dyn, wanted auto, none, dynamic"},
      {"adamw loss_scale=0.5", "loss_scale=0.5, wanted 1 or more"},
      {"adamw loss_scale=dynamic:1e39", "wanted 1 or more, and a number of f32"},
      {"adamw loss_scale=8 scale_interval=3", "scale_interval belongs to loss_scale=dynamic"},
      {"adamw scale_interval=0", "scale_interval=0, wanted 1 or more"},
      {"adamw scale_backoff=1", "scale_backoff=1, wanted between 0 and 1"},
      {"adamw scale_growth=1", "scale_growth=1, wanted above 1"},
      {"adamw gradients=bf16", "gradients=bf16, wanted wide, compute"}};
  for (const auto& [text, message] : cases) {
    CAPTURE(text);
    CHECK_MESSAGE(refusal(text).find(message) != std::string::npos, refusal(text));
  }
}

// --- learning rate -------------------------------------------------------------------------------

TEST_CASE("the learning rate warms up, falls, and stays at its minimum") {
  Attributes attributes{{"learning_rate", 8.0},
                        {"warm_up", std::int64_t{4}},
                        {"schedule", std::string("linear")},
                        {"total_updates", std::int64_t{8}},
                        {"minimum_rate", 4.0}};
  // 8 t / 4 up to update 4; then one quarter of the way from 8 to 4 per update.
  const double linear[] = {2, 4, 6, 8, 7, 6, 5, 4, 4};
  for (std::int64_t t = 1; t <= 9; ++t) CHECK(learning_rate_at(attributes, t) == linear[t - 1]);
  attributes.set("schedule", std::string("cosine"));
  CHECK(learning_rate_at(attributes, 4) == 8);
  // Half way: 4 + 4 (1 + cos(pi / 2)) / 2.
  CHECK(learning_rate_at(attributes, 6) == doctest::Approx(6).epsilon(1e-15));
  // A quarter: 4 + 4 (1 + cos(pi / 4)) / 2 = 6 + sqrt 2.
  CHECK(learning_rate_at(attributes, 5) == doctest::Approx(7.414213562373095).epsilon(1e-15));
  CHECK(learning_rate_at(attributes, 8) == 4);
  CHECK(learning_rate_at(attributes, 800) == 4);
  const Attributes constant{{"learning_rate", 8.0}};
  CHECK(learning_rate_at(constant, 1) == 8);
  // Without a warm-up the first update is a full one, in every schedule.
  attributes.set("warm_up", std::int64_t{0});
  CHECK(learning_rate_at(attributes, 1) == 8);
}

// --- the pass ------------------------------------------------------------------------------------

LogicalGraph trained(const ToyGpt& toy, const std::string& optimizer) {
  return make_training_graph(toy_gpt(toy), parse_optimizer(optimizer));
}

std::map<std::string, int> kinds(const LogicalGraph& graph) {
  std::map<std::string, int> counts;
  for (const LogicalOp& op : graph.ops()) ++counts[op.kind];
  return counts;
}

TEST_CASE("without clipping and loss scale nothing looks at the gradients but their updates") {
  std::map<std::string, int> counts = kinds(trained({.layers = 2}, "adamw"));
  CHECK(counts["gradient_stats"] == 0);
  CHECK(counts["add_stats"] == 0);
  CHECK(counts["update_control"] == 1);
  CHECK(counts["adamw"] == counts["parameter"]);
}

TEST_CASE("statistics are added up a layer at a time, and one small tensor goes on to the next") {
  const LogicalGraph graph = trained({.layers = 2}, "adamw clip=1");
  std::map<std::string, int> counts = kinds(graph);
  CHECK(counts["gradient_stats"] == counts["parameter"]);
  CHECK(counts["add_stats"] == graph.num_layers());
  for (const LogicalOp& op : graph.ops()) {
    if (op.kind != "add_stats") continue;
    int others = 0;
    for (const TensorId input : op.inputs) {
      const LogicalOp& from = graph.op(graph.tensor(input).producer);
      others += from.layer == op.layer ? 0 : 1;
      if (from.layer != op.layer) CHECK(from.layer == op.layer - 1);
    }
    CHECK(others == (op.layer == 0 ? 0 : 1));
  }
  const LogicalOp& control = graph.op(*graph.find_op("update_control"));
  CHECK(control.attributes.real("max_norm") == 1.0);
  const LogicalOp& metrics = graph.op(*graph.find_op("metrics"));
  CHECK(metrics.attributes.text("names") == "loss_sum,token_count,grad_norm");
}

TEST_CASE("a dynamic loss scale is a state that the gradients start from") {
  const LogicalGraph graph = trained({}, "sgd loss_scale=dynamic:8 scale_interval=3");
  const TensorId scale = graph.output(*graph.find_op("loss_scale"));
  const LogicalOp& seeded = graph.op(*graph.find_op("loss.grad_input"));
  CHECK(std::count(seeded.inputs.begin(), seeded.inputs.end(), scale) == 1);
  const LogicalOp& update = graph.op(*graph.find_op("loss_scale.update"));
  CHECK(update.inputs[0] == scale);
  CHECK(update.attributes.integer("interval") == 3);
  CHECK(update.attributes.real("init_value") == 8.0);
  CHECK(graph.op(*graph.find_op("metrics")).attributes.text("names") ==
        "loss_sum,token_count,grad_norm,loss_scale");
  // The updates come after everything that decides about them.
  CHECK(*graph.find_op("loss_scale.update") < *graph.find_op("embedding.tokens.sgd"));
}

TEST_CASE("a static loss scale is a constant, of 1 none") {
  const LogicalGraph scaled = trained({}, "sgd loss_scale=8");
  CHECK(scaled.op(*scaled.find_op("loss_scale")).attributes.real("value") == 8.0);
  CHECK(scaled.op(*scaled.find_op("update_control")).attributes.real("loss_scale") == 8.0);
  CHECK(kinds(trained({}, "sgd loss_scale=1")) == kinds(trained({}, "sgd")));
}

// --- words ---------------------------------------------------------------------------------------

std::map<std::string, std::int64_t> communications(const StagedGraph& graph) {
  std::map<std::string, std::int64_t> counts;
  for (const StagedOp& op : graph.ops)
    if (op.communication && op.communication->side != Side::kReceive)
      ++counts[std::string(to_string(op.communication->primitive)) + " of " +
               std::to_string(op.in.empty() ? 0 : graph.tensors[op.in[0]].global.shape.elements())];
  return counts;
}

StagedGraph staged(const ToyGpt& toy, const std::string& strategy, const std::string& optimizer) {
  const Strategy parsed = parse_strategy(strategy);
  ToyGpt sized = toy;
  sized.batch = parsed.dp * parsed.micro_batch;
  return make_staged_graph(make_training_graph(toy_gpt(sized), parsed, parse_optimizer(optimizer)),
                           parsed, 2, nullptr);
}

TEST_CASE("clipping reduces one small tensor more, and no gradient twice") {
  const ToyGpt toy{.layers = 4, .hidden = 32};
  for (const char* strategy : {"dp=4 micro_batch=1", "dp=4 micro_batch=1 zero=1",
                               "dp=2 tp=2 micro_batch=1 zero=1", "tp=2 micro_batch=2"}) {
    CAPTURE(strategy);
    std::map<std::string, std::int64_t> plain = communications(staged(toy, strategy, "adamw"));
    std::map<std::string, std::int64_t> clipped =
        communications(staged(toy, strategy, "adamw clip=1"));
    const std::int64_t stats = clipped["all_reduce of 2"] - plain["all_reduce of 2"];
    // Replicated gradients need none; shards one over each axis they are split over.
    const bool is_sharded = std::string(strategy) != "dp=4 micro_batch=1";
    CHECK(stats >= (is_sharded ? 1 : 0));
    CHECK(stats <= (is_sharded ? 2 : 0));  // one per axis, or one over both
    clipped["all_reduce of 2"] = plain["all_reduce of 2"];
    CHECK(clipped == plain);
  }
}

TEST_CASE("from stage to stage pass the statistics once and the control once") {
  const StagedGraph graph = staged({.layers = 4}, "pp=4 micro_batch=4", "adamw clip=1");
  int stats = 0, controls = 0;
  for (const StagedOp& op : graph.ops) {
    if (!op.communication || op.communication->side != Side::kSend) continue;
    if (op.name.find(".stats.send") != std::string::npos) {
      ++stats;
      CHECK(op.communication->to_stage == op.communication->from_stage + 1);
    }
    controls += op.name == "update_control.send" ? 1 : 0;
  }
  CHECK(stats == 3);
  CHECK(controls == 3);
  CHECK(validate(graph).empty());
}

TEST_CASE(
    "LAMB keeps weights, moments and directions sharded and gathers no weight for its norms") {
  const ToyGpt toy{.layers = 2, .hidden = 32};
  const char* const strategy = "dp=2 tp=2 micro_batch=1 zero=1";
  std::map<std::string, std::int64_t> adam = communications(staged(toy, strategy, "adamw"));
  std::map<std::string, std::int64_t> lamb = communications(staged(toy, strategy, "lamb"));
  // Only norms of split weights are reduced beside.
  CHECK(lamb["all_reduce of 2"] > 0);
  lamb.erase("all_reduce of 2");
  adam.erase("all_reduce of 2");
  CHECK(lamb == adam);
}

// --- memory --------------------------------------------------------------------------------------

// x [4, n] times `layers` matrices [n, n] in bf16: every parameter is a master that is cast.
LogicalGraph matrices(int layers, std::int64_t n) {
  LogicalGraph graph(builtin_operators());
  const auto add = [&](std::string kind, const std::string& name, int layer,
                       std::vector<TensorId> inputs, Attributes attributes) {
    return graph.output(graph.add({.kind = std::move(kind),
                                   .name = name,
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .phase = Phase::kForward,
                                   .layer = layer,
                                   .parameter = std::nullopt}));
  };
  TensorId x = add_input(graph, "x", 0, {{4, n}, DType::kBF16});
  for (int layer = 0; layer < layers; ++layer) {
    const std::string name = "layer" + std::to_string(layer);
    const TensorId w = add_parameter(graph, name + ".w", layer, {{n, n}, DType::kF32}, {});
    const TensorId cast = add("cast", name + ".cast", layer, {w}, {{"dtype", std::string("bf16")}});
    x = add("matmul", name + ".product", layer, {x, cast}, {});
  }
  const TensorId labels = add_input(graph, "labels", layers - 1, {{4}, DType::kI32});
  const LossTensors loss = softmax_cross_entropy(graph, x, labels, "loss", layers - 1);
  graph.set_loss(loss.loss_sum, loss.token_count);
  return graph;
}

// The bias of a column-parallel product, split over tp, has as many elements as the control.
TEST_CASE("what controls the updates stays whole, however many elements the parameters have") {
  for (const std::string optimizer :
       {"sgd", "momentum", "adamw", "lamb", "adamw clip=1 loss_scale=dynamic"}) {
    CAPTURE(optimizer);
    const Strategy strategy = parse_strategy("tp=2 micro_batch=4");
    const StagedGraph graph = make_staged_graph(
        make_training_graph(toy_gpt({.ffn = 2}), strategy, parse_optimizer(optimizer)), strategy, 2,
        nullptr);
    CHECK(validate(graph).empty());
    for (const StagedTensor& tensor : graph.tensors) {
      if (tensor.name == "update_control") CHECK(to_string(tensor.words) == "(B, B)");
      if (tensor.name == "layer0.up.b") CHECK(to_string(tensor.words) == "(B, S(0))");
    }
  }
}

// Bytes of a staged graph by class, over the whole tensors: of what has the shape of a weight.
std::map<MemoryClass, std::int64_t> weight_bytes(const StagedGraph& graph, const Shape& weight) {
  std::map<MemoryClass, std::int64_t> bytes;
  for (const StagedTensor& tensor : graph.tensors)
    if (tensor.global.shape == weight) bytes[tensor.memory] += size_of(tensor.global).value;
  return bytes;
}

TEST_CASE("Adam in mixed precision holds 2 + 2 + 12 bytes per parameter, 2 + 4 + 12 in wide sums") {
  constexpr std::int64_t kSize = 128;
  const std::int64_t psi = 3 * kSize * kSize;
  const Strategy strategy = parse_strategy("micro_batch=4");
  for (const auto& [text, gradient] : {std::pair("adamw gradients=compute", 2), {"adamw", 4}}) {
    const StagedGraph graph =
        make_staged_graph(make_training_graph(matrices(3, kSize), strategy, parse_optimizer(text)),
                          strategy, 2, nullptr);
    std::map<MemoryClass, std::int64_t> bytes = weight_bytes(graph, {kSize, kSize});
    CHECK(bytes[MemoryClass::kParameters] == 2 * psi);
    CHECK(bytes[MemoryClass::kGradients] == gradient * psi);
    CHECK(bytes[MemoryClass::kOptimizer] == 12 * psi);
    CHECK(bytes.size() == 3);
  }
}

// Peaks of the plan, with ZeRO-1 over two ranks: the 12 bytes are halved, the rest is whole. Beside
// the weights there are scalars, a buffer alignment each.
TEST_CASE("the memory plan holds what was promised, and ZeRO halves the optimizer's part") {
  constexpr std::int64_t kSize = 128, kLayers = 3;
  const std::int64_t psi = kLayers * kSize * kSize;
  const auto peaks = [&](const std::string& text) {
    const Strategy strategy = parse_strategy(text);
    const PhysicalGraph graph =
        compile(make_training_graph(matrices(kLayers, kSize), strategy,
                                    parse_optimizer("adamw gradients=compute loss_scale=none")),
                strategy, 8, testing::ToyCost(), testing::ToyNetwork());
    std::vector<std::int64_t> bytes;
    for (const Bytes peak : graph.programs[ProgramId(0)].arena.peak_by_class)
      bytes.push_back(peak.value);
    return bytes;
  };
  const auto of = [](const std::vector<std::int64_t>& bytes, MemoryClass memory) {
    return bytes[static_cast<std::size_t>(memory)];
  };
  const std::int64_t steps = kLayers * kBufferAlignment;
  const auto whole = peaks("micro_batch=4");
  CHECK(of(whole, MemoryClass::kOptimizer) == 12 * psi + steps);
  CHECK(of(whole, MemoryClass::kParameters) - 2 * psi <= kBufferAlignment);  // the seed
  CHECK(of(whole, MemoryClass::kGradients) - 2 * psi <= 4 * kBufferAlignment);
  const auto sharded = peaks("dp=2 micro_batch=2 zero=1");
  CHECK(of(sharded, MemoryClass::kOptimizer) == 6 * psi + steps);
  CHECK(of(sharded, MemoryClass::kParameters) - 2 * psi <= kBufferAlignment);
}

}  // namespace
}  // namespace sextant::optimizer_test
