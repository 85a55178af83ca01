// Staging: where layers go, which words and communications a strategy leads to, counted by hand.
#include "compiler/words/stage.h"

#include "compiler/training/training_graph.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"
#include "sbp/boxing.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace sextant::stage_test {
namespace {

StagedGraph stage(const LogicalGraph& forward, const std::string& strategy,
                  std::int64_t micro_batches = 3) {
  return make_staged_graph(make_training_graph(forward), parse_strategy(strategy), micro_batches,
                           nullptr);
}

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const StagedOp& find(const StagedGraph& graph, const std::string& name) {
  const auto at = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const StagedOp& op) { return op.name == name; });
  if (at == graph.ops.end()) FAIL("no operator " << name);
  return *at;
}

const StagedTensor& output(const StagedGraph& graph, const std::string& op, std::size_t index = 0) {
  return graph.tensors[find(graph, op).out[index]];
}
const StagedTensor& input(const StagedGraph& graph, const std::string& op, std::size_t index) {
  return graph.tensors[find(graph, op).in[index]];
}

// Communications by "primitive over axes", phase and rate, of one layer or of all.
std::map<std::string, int> communications(const StagedGraph& graph, int layer = -1) {
  std::map<std::string, int> counts;
  for (const StagedOp& op : graph.ops) {
    if (!op.communication || (layer >= 0 && op.layer != layer)) continue;
    std::string axes;
    for (const std::size_t axis : op.communication->group_axes)
      axes += " " + graph.placements[static_cast<std::size_t>(op.stage)].axes[axis].name;
    ++counts[op.kind + axes + ", " + std::string(to_string(op.phase)) + ", " +
             (op.rate == Rate::kPerStep ? "step" : "micro_batch")];
  }
  return counts;
}

std::vector<int> layers_per_stage(const std::vector<int>& stage_of_layer, int stages) {
  std::vector<int> counts(static_cast<std::size_t>(stages), 0);
  for (std::size_t layer = 1; layer + 1 < stage_of_layer.size(); ++layer)
    ++counts[static_cast<std::size_t>(stage_of_layer[layer])];
  return counts;
}

TEST_CASE("ranks run through tp first, then dp, then stages") {
  const auto placements = make_placements(parse_strategy("dp=3 tp=2 pp=2"));
  REQUIRE(placements.size() == 2);
  // Rank of (stage 1, dp 2, tp 1) = 1 * 6 + 2 * 2 + 1.
  CHECK(placements[1].ranks[placements[1].index_of_coordinates({2, 1})] == Rank(11));
  CHECK(to_string(placements[1]) == "[dp=3, tp=2]");
}

TEST_CASE("order= says which axis has neighbouring ranks, stages included") {
  const auto rank = [](const char* strategy, std::size_t stage,
                       const std::vector<std::int64_t>& coordinates) {
    const auto placements = make_placements(parse_strategy(strategy));
    return placements[stage].ranks[placements[stage].index_of_coordinates(coordinates)].value;
  };
  // dp steps by 1, tp by 3, stages by 6.
  CHECK(rank("dp=3 tp=2 pp=2 order=dp,tp,pp", 1, {2, 1}) == 6 + 2 * 1 + 1 * 3);
  // Stages step by 1, tp by 2, dp by 4.
  CHECK(rank("dp=3 tp=2 pp=2 order=pp,tp,dp", 1, {2, 1}) == 1 + 2 * 4 + 1 * 2);
  // ep steps by 1, pp by 2, cp by 4, tp by 12, what is left of dp by 24; the mesh is
  // [dp=2, ep=2, cp=3, tp=2].
  CHECK(rank("dp=4 ep=2 cp=3 tp=2 pp=2 order=ep,pp,cp,tp,dp", 1, {1, 1, 2, 1}) ==
        1 * 2 + 1 * 24 + 1 * 1 + 2 * 4 + 1 * 12);
  // Two key/value heads for four parts of tp: kv steps over the two that share one.
  Strategy shared = parse_strategy("dp=2 tp=4 order=dp,tp");
  shared.key_head_parts = 2;
  const Placement placement = make_placements(shared).front();
  CHECK(placement.ranks[placement.index_of_coordinates({1, 1, 1})] == Rank(1 + 4 + 2));
}

TEST_CASE("every order numbers all ranks, each once") {
  RankOrder order = kUsualOrder;
  do {
    Strategy strategy = parse_strategy("dp=4 ep=2 cp=3 tp=2 pp=2");
    strategy.order = order;
    std::vector<Rank> ranks;
    for (const Placement& placement : make_placements(strategy))
      ranks.insert(ranks.end(), placement.ranks.begin(), placement.ranks.end());
    std::sort(ranks.begin(), ranks.end());
    CHECK(is_counted_from_zero(ranks));
    CHECK(std::ssize(ranks) == strategy.ranks());
  } while (std::next_permutation(order.begin(), order.end()));
}

// The model has an embedding before and a head behind its blocks: n blocks are n + 2 layers.
TEST_CASE("G41: every block is on exactly one stage, earlier stages take the remainder") {
  const auto spread = [](int blocks, const char* strategy, int stages) {
    return layers_per_stage(stage_of_layers(blocks + 2, parse_strategy(strategy)), stages);
  };
  CHECK(spread(30, "pp=4", 4) == std::vector<int>{8, 8, 7, 7});
  // 61 = 13 x 4 + 3 x 3.
  CHECK(spread(61, "pp=16", 16) ==
        std::vector<int>{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3});
  CHECK(spread(5, "pp=1", 1) == std::vector<int>{5});
  CHECK(spread(10, "pp=4 first_layers=1 last_layers=2", 4) == std::vector<int>{1, 4, 3, 2});
  CHECK(spread(22, "pp=2 first_layers=11 last_layers=11", 2) == std::vector<int>{11, 11});
  const auto stages = stage_of_layers(6, parse_strategy("pp=2"));
  CHECK(stages == std::vector<int>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("G43: counts that leave layers over or take too many are refused with the number") {
  const auto spread = [](int blocks, const char* strategy) {
    return refusal([&] { stage_of_layers(blocks + 2, parse_strategy(strategy)); });
  };
  CHECK(contains(spread(46, "pp=2 first_layers=11 last_layers=11"),
                 "layers=11,11: 22 blocks, 24 too few, and the model has 46; balanced is "
                 "layers=23,23"));
  CHECK(contains(spread(30, "pp=4 layers=7,8,9,8"),
                 "layers=7,8,9,8: 32 blocks, 2 too many, and the model has 30; balanced is "
                 "layers=8,8,7,7"));
  CHECK(contains(spread(12, "pp=4 first_layers=6 last_layers=5"),
                 "layers=6,*,*,5: 11 blocks and one or more for each of 2 even shares, and the "
                 "model has 12"));
  CHECK(contains(spread(8, "layers=7"), "7 blocks, 1 too few, and the model has 8"));
  CHECK(contains(spread(3, "pp=4"), "pp that would do: 1 to 3"));
}

TEST_CASE("blocks spread over virtual stages, in model order, earlier ones get more") {
  // 9 blocks over 6 virtual stages: 2 2 2 1 1 1; the embedding joins the first, the head the last.
  const auto places = place_layers(11, parse_strategy("pp=3 schedule=interleaved virtual=2"));
  std::vector<int> stages, chunks;
  for (const LayerPlace& place : places) {
    stages.push_back(place.stage);
    chunks.push_back(place.chunk);
    CHECK(place.virtual_stage == place.chunk * 3 + place.stage);
  }
  CHECK(stages == std::vector<int>{0, 0, 0, 1, 1, 2, 2, 0, 1, 2, 2});
  CHECK(chunks == std::vector<int>{0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1});
  // zb-v comes back: embedding and head are both on stage 0.
  CHECK(stage_of_layers(11, parse_strategy("pp=3 schedule=zb-v")) ==
        std::vector<int>{0, 0, 0, 1, 1, 2, 2, 2, 1, 0, 0});
}

TEST_CASE("layers= counts virtual stages as a micro-batch passes them") {
  const auto per_virtual_stage = [](int blocks, const std::string& strategy) {
    const auto places = place_layers(blocks + 2, parse_strategy(strategy));
    std::vector<int> counts(static_cast<std::size_t>(places.back().virtual_stage) + 1, 0);
    for (std::size_t layer = 1; layer + 1 < places.size(); ++layer)
      ++counts[static_cast<std::size_t>(places[layer].virtual_stage)];
    return counts;
  };
  // Stages of 3, 4, 2 blocks; chunks of stage 0: 2 + 1, of stage 1: 2 + 2, of stage 2: 1 + 1.
  CHECK(per_virtual_stage(9, "pp=3 schedule=interleaved virtual=2 first_layers=3 last_layers=2") ==
        std::vector<int>{2, 2, 1, 1, 2, 1});
  CHECK(per_virtual_stage(9, "pp=3 schedule=zb-v first_layers=3 last_layers=2") ==
        std::vector<int>{2, 2, 1, 1, 2, 1});
  CHECK(per_virtual_stage(32, "pp=4 layers=7,8,9,8") == std::vector<int>{7, 8, 9, 8});
  for (const char* schedule : {"interleaved virtual=2", "zb-v"})
    CHECK(per_virtual_stage(15, fmt::format("pp=3 schedule={} layers=1,5,2,*,3,1", schedule)) ==
          std::vector<int>{1, 5, 2, 3, 3, 1});
  // The fourth count is of the second chunk of stage 0, and of stage 2 where chunks come back.
  CHECK(stage_of_layers(9, parse_strategy("pp=3 schedule=interleaved virtual=2 "
                                          "layers=1,1,1,2,1,1")) ==
        std::vector<int>{0, 0, 1, 2, 0, 0, 1, 2, 2});
  CHECK(stage_of_layers(9, parse_strategy("pp=3 schedule=zb-v layers=1,1,1,2,1,1")) ==
        std::vector<int>{0, 0, 1, 2, 2, 2, 1, 0, 0});
  const auto refused = [&](int blocks, const char* strategy) {
    return refusal([&] { per_virtual_stage(blocks, strategy); });
  };
  CHECK(contains(refused(5, "pp=3 schedule=zb-v"), "pp that would do with virtual=2: 1 to 2"));
  CHECK(contains(refused(9, "pp=3 schedule=interleaved virtual=4"), "virtual with pp=3: 1 to 3"));
  CHECK(
      contains(refused(9, "pp=1048576 schedule=interleaved virtual=1048576"), "would do: 1 to 9"));
}

TEST_CASE("an MLP over dp 2 x tp 2 has the communications of its algebra and no other") {
  // Embedding rows (table replicated), up: column parallel, down: row parallel, so one all_reduce
  // over tp before its bias. Backward: dx of `up` is partial over tp and only the table's gradient
  // reads it, a weight gradient, so it stays partial over the step and is reduced over both axes
  // at once. All weight gradients are partial over dp and reduced once per step, as are the loss
  // and the token count.
  const StagedGraph graph = stage(toy_mlp(4, 6, 8, 5), "dp=2 tp=2 micro_batch=2");
  CHECK(to_text(graph).substr(0, to_text(graph).find("0 L3 optimizer")) ==
        "micro_batches 3\n"
        "stage 0: [dp=2, tp=2] ranks 0 1 2 3\n"
        "0 L0 data micro_batch input ids: -> ids 4 i32 (S(0), B) activations\n"
        "0 L0 forward micro_batch embedding rows: ids (S(0), B), table (B, B) -> rows 4x6 f32 "
        "(S(0), B) activations\n"
        "0 L1 forward micro_batch matmul up: rows (S(0), B), up.w (B, S(1)) -> up 4x8 f32 (S(0), "
        "S(1)) activations\n"
        "0 L1 forward micro_batch bias_add up.bias: up (S(0), S(1)), up.b (B, S(0)) -> up.bias "
        "4x8 f32 (S(0), S(1)) activations\n"
        "0 L1 forward micro_batch gelu gelu: up.bias (S(0), S(1)) -> gelu 4x8 f32 (S(0), S(1)) "
        "activations\n"
        "0 L2 forward micro_batch matmul down: gelu (S(0), S(1)), down.w (B, S(0)) -> down 4x5 "
        "f32 (S(0), P(sum)) activations\n"
        "0 L2 forward micro_batch all_reduce down.all_reduce: down (S(0), P(sum)) -> down as "
        "(S(0), B) 4x5 f32 (S(0), B) activations [sum over tp]\n"
        "0 L2 forward micro_batch bias_add down.bias: down as (S(0), B) (S(0), B), down.b (B, B) "
        "-> down.bias 4x5 f32 (S(0), B) activations\n"
        "0 L3 data micro_batch input labels: -> labels 4 i32 (S(0), B) activations\n"
        "0 L3 forward micro_batch row_max loss.max: down.bias (S(0), B) -> loss.max 4 f32 (S(0), "
        "B) activations\n"
        "0 L3 forward micro_batch row_sum_exp loss.sum_exp: down.bias (S(0), B), loss.max (S(0), "
        "B) -> loss.sum_exp 4 f32 (S(0), B) activations\n"
        "0 L3 forward micro_batch pick loss.pick: down.bias (S(0), B), labels (S(0), B) -> "
        "loss.pick 4 f32 (S(0), B) activations\n"
        "0 L3 forward micro_batch cross_entropy loss: down.bias (S(0), B), loss.max (S(0), B), "
        "loss.sum_exp (S(0), B), loss.pick (S(0), B), labels (S(0), B) -> loss () f32 (P(sum), "
        "B) gradients, loss:1 () f32 (P(sum), B) gradients\n"
        "0 L3 input_grad step constant loss.grad_seed: -> loss.grad_seed () f32 (B, B) "
        "parameters\n"
        "0 L3 input_grad micro_batch cross_entropy_grad loss.grad_input: down.bias (S(0), B), "
        "loss.max (S(0), B), loss.sum_exp (S(0), B), labels (S(0), B), loss.grad_seed (B, B) -> "
        "loss.grad_input 4x5 f32 (S(0), B) activations\n"
        "0 L2 weight_grad micro_batch reduce_to_bias down.bias.grad_weight: loss.grad_input "
        "(S(0), B) -> down.bias.grad_weight 5 f32 (P(sum), B) gradients\n"
        "0 L2 input_grad micro_batch matmul down.grad_input: loss.grad_input (S(0), B), down.w "
        "(B, S(0)) -> down.grad_input 4x8 f32 (S(0), S(1)) activations\n"
        "0 L2 weight_grad micro_batch matmul_grad_weight down.grad_weight: gelu (S(0), S(1)), "
        "loss.grad_input (S(0), B) -> down.grad_weight 8x5 f32 (P(sum), S(0)) gradients\n"
        "0 L1 input_grad micro_batch gelu_grad gelu.grad_input: up.bias (S(0), S(1)), "
        "down.grad_input (S(0), S(1)) -> gelu.grad_input 4x8 f32 (S(0), S(1)) activations\n"
        "0 L1 weight_grad micro_batch reduce_to_bias up.bias.grad_weight: gelu.grad_input (S(0), "
        "S(1)) -> up.bias.grad_weight 8 f32 (P(sum), S(0)) gradients\n"
        "0 L1 input_grad micro_batch matmul up.grad_input: gelu.grad_input (S(0), S(1)), up.w "
        "(B, S(1)) -> up.grad_input 4x6 f32 (S(0), P(sum)) activations\n"
        "0 L1 weight_grad micro_batch matmul_grad_weight up.grad_weight: rows (S(0), B), "
        "gelu.grad_input (S(0), S(1)) -> up.grad_weight 6x8 f32 (P(sum), S(1)) gradients\n"
        "0 L0 weight_grad micro_batch embedding_grad rows.grad_weight: ids (S(0), B), "
        "up.grad_input (S(0), P(sum)) -> rows.grad_weight 6x6 f32 (P(sum), P(sum)) gradients\n");
  // Table over both axes; up.w, up.b, down.w, down.b, loss and token count over dp.
  CHECK(communications(graph) ==
        std::map<std::string, int>{{"all_reduce tp, forward, micro_batch", 1},
                                   {"all_reduce dp tp, optimizer, step", 1},
                                   {"all_reduce dp, optimizer, step", 6}});
  CHECK(validate(graph).empty());
}

// Per block and micro-batch: the row-parallel products of attention and MLP are reduced before
// their biases (2), the gradients into the two norms once each, q, k and v summed while partial
// (2). Embedding: vocabulary split, 1. Head: the maximum, the sum and the picked logit of each row,
// and the gradient into the final norm. Per step: one per parameter over dp.
TEST_CASE("a GPT over dp 2 x tp 2 communicates as Megatron-LM does") {
  const StagedGraph graph = stage(toy_gpt({.layers = 2}), "dp=2 tp=2 micro_batch=2");
  for (const int block : {1, 2})
    CHECK(communications(graph, block) ==
          std::map<std::string, int>{{"all_reduce tp, forward, micro_batch", 2},
                                     {"all_reduce tp, input_grad, micro_batch", 2},
                                     {"all_reduce dp, optimizer, step", 16}});
  CHECK(communications(graph, 3) ==
        std::map<std::string, int>{{"all_reduce tp, forward, micro_batch", 3},
                                   {"all_reduce tp, input_grad, micro_batch", 1},
                                   // final norm's two weights, loss and token count
                                   {"all_reduce dp, optimizer, step", 4}});
  // Tied table once, positions.
  CHECK(communications(graph, 0) ==
        std::map<std::string, int>{{"all_reduce tp, forward, micro_batch", 1},
                                   {"all_reduce dp, optimizer, step", 2}});
  CHECK(find(graph, "layer0.o.all_reduce").communication->reduce == ReduceOp::kSum);
  CHECK(find(graph, "loss.max.all_reduce").communication->reduce == ReduceOp::kMax);
  CHECK(to_string(output(graph, "logits").words) == "(S(0), S(2))");
  CHECK(input(graph, "layer0.norm1.grad_input", 4).name == "layer0.norm1.grad_sum_2 as (S(0), B)");
  CHECK(validate(graph).empty());
}

TEST_CASE(
    "one data-parallel rank or one tensor-parallel rank communicates nothing over that axis") {
  CHECK(communications(stage(toy_gpt({}), "micro_batch=4")).empty());
  for (const auto& [what, count] : communications(stage(toy_gpt({}), "dp=4 micro_batch=1")))
    CHECK(what == "all_reduce dp, optimizer, step");
  for (const auto& [what, count] : communications(stage(toy_gpt({}), "tp=2 micro_batch=4")))
    CHECK(contains(what, "all_reduce tp"));
}

TEST_CASE("stages pass one activation forward and one gradient back per micro-batch") {
  const StagedGraph graph = stage(toy_gpt({.layers = 4, .tied = false}), "pp=4 micro_batch=4");
  int forward = 0, backward = 0;
  for (const StagedOp& op : graph.ops) {
    if (!op.communication || op.rate == Rate::kPerStep) continue;
    const StagedCommunication& c = *op.communication;
    if (op.queue == QueueRole::kTransferOutForward) {
      ++forward;
      CHECK(c.to_stage == c.from_stage + 1);
    }
    if (op.queue == QueueRole::kTransferOutBackward) {
      ++backward;
      CHECK(c.to_stage == c.from_stage - 1);
    }
    CHECK(op.phase == Phase::kCommunication);
  }
  CHECK(forward == 3);
  CHECK(backward == 3);
  // The send half is in the layer that makes the value, the receive half in the one that reads it.
  CHECK(find(graph, "layer0.residual2.send").layer == 1);
  CHECK(find(graph, "layer0.residual2.receive").layer == 2);
  // The control goes from the last stage to each other stage once per step.
  int counts = 0;
  for (const StagedOp& op : graph.ops) counts += op.name == "update_control.send" ? 1 : 0;
  CHECK(counts == 3);
  CHECK(validate(graph).empty());
}

TEST_CASE("a value that is reduced before it leaves its stage is reduced once") {
  const StagedGraph graph = stage(toy_gpt({}), "dp=2 pp=2 micro_batch=2");
  int reductions = 0;
  for (const StagedOp& op : graph.ops) reductions += op.name == "loss:1.all_reduce" ? 1 : 0;
  CHECK(reductions == 1);
}

// The table lives on the first stage; the head on the last reads a copy made once per step, and its
// gradient comes back once per step and is added there, before the one reduction and update.
TEST_CASE("G27: a tied embedding is updated once, on the first stage") {
  const StagedGraph graph = stage(toy_gpt({.tied = true}), "dp=2 pp=2 micro_batch=2");
  int updates = 0;
  for (const StagedOp& op : graph.ops)
    updates += op.kind == "adamw" && output(graph, op.name).name == "embedding.tokens" ? 1 : 0;
  CHECK(updates == 1);
  CHECK(find(graph, "embedding.tokens.adamw").stage == 0);
  const StagedOp& copy = find(graph, "embedding.tokens.receive");
  CHECK(copy.stage == 1);
  CHECK(copy.rate == Rate::kPerStep);
  CHECK(input(graph, "logits", 1).name == "embedding.tokens as (B, B) on stage 1");
  CHECK(input(graph, "logits", 1).memory == MemoryClass::kParameters);
  const StagedOp& sum = find(graph, "embedding.tokens.grad_sum");
  CHECK(sum.stage == 0);
  CHECK(sum.phase == Phase::kOptimizer);
  CHECK(find(graph, "logits.grad_weight.receive").rate == Rate::kPerStep);
  CHECK(validate(graph).empty());
}

TEST_CASE("ZeRO-1 is other words for the state, a reduce_scatter and an all_gather per step") {
  const ToyGpt big{.layers = 1, .hidden = 32, .vocab = 40, .ffn = 64};
  const StagedGraph graph = stage(toy_gpt(big), "dp=2 tp=2 micro_batch=2 zero=1");
  // 32x64 over tp on dim 1: dim 0 is free for dp.
  CHECK(to_string(output(graph, "layer0.up.w.adamw", 0).words) == "(S(0), S(1))");
  CHECK(to_string(output(graph, "layer0.up.w.adamw", 2).words) == "(S(0), S(1))");
  CHECK(to_string(output(graph, "layer0.down.w.adamw").words) == "(S(1), S(0))");
  // Below 1024 elements a parameter stays whole over dp.
  CHECK(to_string(output(graph, "layer0.up.b.adamw").words) == "(B, S(0))");
  // Sharded: table 40x32, q, k, v, o 32x32, up 32x64, down 64x32.
  const std::map<std::string, int> all = communications(graph);
  CHECK(all.at("reduce_scatter dp, optimizer, step") == 7);
  CHECK(all.at("all_gather dp, forward, step") == 7);
  // Whole: positions 6x32; of the block 2 x 2 norm weights and the biases of q, k, v, o, up, down;
  // 2 final norm weights; loss and token count.
  CHECK(all.at("all_reduce dp, optimizer, step") == 1 + 4 + 6 + 2 + 2);
  CHECK(validate(graph).empty());
}

TEST_CASE("ZeRO-1 gathers the weights in the type of the computation") {
  const ToyGpt big{.layers = 1, .hidden = 32, .vocab = 40, .ffn = 64, .compute = DType::kBF16};
  const StagedGraph graph = stage(toy_gpt(big), "dp=2 micro_batch=2 zero=1");
  const StagedOp& gather = find(graph, "layer0.up.w.cast.all_gather");
  CHECK(gather.communication->dtype == DType::kBF16);
  CHECK(gather.rate == Rate::kPerStep);
  CHECK(to_string(output(graph, "layer0.up.w.cast").words) == "(S(0), B)");
  CHECK(output(graph, "layer0.up.w.cast.all_gather").memory == MemoryClass::kParameters);
}

TEST_CASE("where tp takes the only long dim, ZeRO-1 nests inside its split") {
  LogicalGraph graph(builtin_operators());
  const TensorId ids = add_input(graph, "ids", 0, {{4}, DType::kI32}, {3, {}});
  ParameterInfo info;
  info.tensor_parallel_dim = 1;
  const TensorId w = add_parameter(graph, "w", 0, {{3, 2048}, DType::kF32}, info);
  graph.add({.kind = "embedding",
             .name = "look_up",
             .attributes = {},
             .inputs = {ids, w},
             .outputs = {},
             .parameter = std::nullopt});
  // Nobody updates it yet: it stays whole over dp.
  const Strategy strategy = parse_strategy("dp=4 tp=2 micro_batch=1 zero=1");
  CHECK(to_string(strategy_words(graph, strategy).constraints.tensors.at(w)) == "(B, S(1))");
  const TensorId gradient =
      graph.output(graph.add({.kind = "constant",
                              .name = "gradient",
                              .attributes = {{"shape", std::vector<std::int64_t>{3, 2048}},
                                             {"dtype", std::string("f32")},
                                             {"value", 1.0}},
                              .inputs = {},
                              .outputs = {},
                              .parameter = std::nullopt}));
  const TensorId control =
      graph.output(graph.add({.kind = "constant",
                              .name = "control",
                              .attributes = {{"shape", std::vector<std::int64_t>{2}},
                                             {"dtype", std::string("f64")},
                                             {"value", 1.0}},
                              .inputs = {},
                              .outputs = {},
                              .parameter = std::nullopt}));
  graph.add({.kind = "adamw",
             .name = "w.adamw",
             .attributes = {{"learning_rate", 0.1},
                            {"beta1", 0.9},
                            {"beta2", 0.9},
                            {"epsilon", 1e-8},
                            {"weight_decay", 0.0},
                            {"init", std::string("zeros")}},
             .inputs = {w, gradient, control},
             .outputs = {},
             .phase = Phase::kOptimizer,
             .parameter = std::nullopt});
  // dim 0 has 3 < 4 rows; dim 1 is tp's.
  CHECK(to_string(strategy_words(graph, strategy).constraints.tensors.at(w)) == "(S(1)^2, S(1)^1)");
  const StagedGraph staged = make_staged_graph(graph, strategy, 2, nullptr);
  CHECK(communications(staged).at("all_gather dp, forward, step") == 1);
  CHECK(validate(staged).empty());
}

TEST_CASE("memory classes say what a tensor is for") {
  const StagedGraph graph = stage(toy_gpt({}), "dp=2 tp=2 micro_batch=2");
  CHECK(output(graph, "layer0.q.w.adamw", 0).memory == MemoryClass::kParameters);
  CHECK(output(graph, "layer0.q.w.adamw", 1).memory == MemoryClass::kOptimizer);
  CHECK(output(graph, "layer0.q.w.adamw", 3).memory == MemoryClass::kOptimizer);
  CHECK(output(graph, "layer0.q.grad_weight").memory == MemoryClass::kGradients);
  CHECK(output(graph, "layer0.q.grad_weight.all_reduce").memory == MemoryClass::kGradients);
  CHECK(output(graph, "layer0.q").memory == MemoryClass::kActivations);
  CHECK(output(graph, "layer0.o.all_reduce").memory == MemoryClass::kActivations);
}

TEST_CASE(
    "a tensor that is read in every micro-batch and summed over the step gets a copy to sum") {
  LogicalGraph graph = make_training_graph(toy_mlp(4, 6, 8, 5));
  // `up` is an activation that backward reads; a metric of its bias gradient's kind reads its sum.
  const TensorId loss_max = graph.output(*graph.find_op("loss.max"));
  const TensorId total =
      graph.output(graph.add({.kind = "reshape",
                              .name = "watched",
                              .attributes = {{"shape", std::vector<std::int64_t>{4}}},
                              .inputs = {loss_max},
                              .outputs = {},
                              .phase = Phase::kOptimizer,
                              .layer = 3,
                              .parameter = std::nullopt}));
  CHECK(total.is_valid());
  const StagedGraph staged =
      make_staged_graph(graph, parse_strategy("dp=2 micro_batch=2"), 3, nullptr);
  CHECK(find(staged, "loss.max.box_local").rate == Rate::kPerMicroBatch);
  CHECK(output(staged, "loss.max.box_local").memory == MemoryClass::kGradients);
  CHECK(find(staged, "watched").rate == Rate::kPerStep);
  CHECK(validate(staged).empty());
}

TEST_CASE("every strategy that fits gives a sound staged graph") {
  const std::vector<ToyGpt> models = {
      {.layers = 3},
      {.layers = 3, .tied = false},
      {.layers = 3, .hidden = 32, .vocab = 37, .ffn = 70, .compute = DType::kBF16},
      {.layers = 3, .heads = 4, .kv_heads = 2}};
  int graphs = 0;
  for (ToyGpt model : models)
    for (const int dp : {1, 2, 4})
      for (const int tp : {1, 2, 4})
        for (const int pp : {1, 2, 3})
          for (const int zero : {0, 1}) {
            model.batch = 2 * dp;
            const std::string strategy = "dp=" + std::to_string(dp) + " tp=" + std::to_string(tp) +
                                         " pp=" + std::to_string(pp) +
                                         " micro_batch=2 zero=" + std::to_string(zero);
            CAPTURE(strategy);
            CHECK(validate(stage(toy_gpt(model), strategy)) == std::vector<std::string>{});
            ++graphs;
          }
  CHECK(graphs == 4 * 54);
}

TEST_CASE("staging twice gives the same bytes") {
  const std::string once = to_text(stage(toy_gpt({}), "dp=2 tp=2 pp=2 micro_batch=2 zero=1"));
  CHECK(once == to_text(stage(toy_gpt({}), "dp=2 tp=2 pp=2 micro_batch=2 zero=1")));
}

// Tensors that an axis splits, with their words.
std::vector<std::string> splits_over(const StagedGraph& graph, std::size_t axis) {
  std::vector<std::string> splits;
  for (const StagedTensor& tensor : graph.tensors)
    if (tensor.words[axis].is_split())
      splits.push_back(tensor.name + " " + to_string(tensor.words));
  return splits;
}

std::int64_t boxing_bytes(const TensorType& type, const Placement& placement, const char* from,
                          const char* to) {
  return plan_boxing({.type = type,
                      .from_placement = &placement,
                      .to_placement = &placement,
                      .from = parse_nd_sbp(from),
                      .to = parse_nd_sbp(to),
                      .to_dtype = std::nullopt,
                      .reduce_dtype = std::nullopt,
                      .objective = BoxingObjective::kBytes,
                      .network = nullptr})
      .total_bytes.value;
}

struct SmallGraph {
  LogicalGraph graph{builtin_operators()};

  TensorId op(const std::string& kind, const std::string& name, std::vector<TensorId> inputs,
              Attributes attributes = {}) {
    return graph.output(graph.add({.kind = kind,
                                   .name = name,
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .phase = Phase::kForward,
                                   .layer = 0,
                                   .parameter = std::nullopt}));
  }
  TensorId sum(const std::string& name, TensorId x, std::vector<std::int64_t> dims) {
    return op("reduce_sum", name, {x}, {{"dims", std::move(dims)}});
  }
};

// One row of positions times one row of weights: neither is split, and a part of one row less than
// there are devices would be.
TEST_CASE("tp splits nothing of a model that gives it nothing to split") {
  SmallGraph model;
  const TensorId x = add_input(model.graph, "x", 0, {{1, 6, 1}, DType::kF32});
  const TensorId w = add_parameter(model.graph, "w", 0, {{8}, DType::kF32}, {});
  const TensorId product = model.op("mul", "product", {x, w});
  const TensorId y = model.op("mul", "y", {model.op("exp", "exp", {product}), product});
  model.graph.set_loss(model.sum("loss", y, {0, 1, 2}), model.sum("count", x, {0, 1, 2}));
  const StagedGraph graph = stage(model.graph, "tp=2");
  CHECK(splits_over(graph, 1) == std::vector<std::string>{});
  CHECK(communications(graph).empty());
}

// Features are averaged over an image; tp splits the columns of the head behind.
TEST_CASE("the gradient of a pool is split over images where tp splits no images") {
  SmallGraph model;
  const TensorId x = add_input(model.graph, "x", 0, {{4, 3, 6, 6}, DType::kF32});
  const TensorId gain = add_parameter(model.graph, "gain", 0, {{6}, DType::kF32}, {});
  const TensorId w = add_parameter(model.graph, "w", 0, {{3, 8}, DType::kF32},
                                   ParameterInfo{.initializer = {}, .tensor_parallel_dim = 1});
  const TensorId image = model.op("exp", "image", {model.op("mul", "scaled", {x, gain})});
  const TensorId features =
      model.op("reduce_mean", "pool", {image}, {{"dims", std::vector<std::int64_t>{2, 3}}});
  const TensorId classes = model.op("exp", "classes", {model.op("matmul", "head", {features, w})});
  model.graph.set_loss(model.sum("loss", classes, {0, 1}), model.sum("count", x, {0, 1, 2, 3}));
  const StagedGraph graph = stage(model.graph, "dp=2 tp=2 micro_batch=2");
  CHECK(to_string(output(graph, "image").words) == "(S(0), B)");
  CHECK(to_string(output(graph, "pool.grad_input_2").words) == "(S(0), B)");
  CHECK(find(graph, "pool.grad_input_2").kind == "expand");
  for (const std::string& split : splits_over(graph, 1)) CHECK(!contains(split, "S(2)"));
}

TEST_CASE("heads that tp does not divide are refused with the degrees that would do") {
  const ToyGpt twelve{.batch = 2, .hidden = 24, .heads = 12, .kv_heads = 12};
  const std::string uneven = refusal([&] { stage(toy_gpt(twelve), "tp=8 micro_batch=2"); });
  CHECK(contains(uneven, "layer0.q.heads"));
  CHECK(contains(uneven, "tp that would do: 1, 2, 3, 4, 6, 12"));
  const ToyGpt grouped{.batch = 2, .hidden = 24, .heads = 12, .kv_heads = 4};
  CHECK(contains(refusal([&] { stage(toy_gpt(grouped), "tp=6 micro_batch=2"); }),
                 "tp that would do: 1, 2, 4"));
}

TEST_CASE(
    "G35: of 4 key/value heads over tp=8 two devices gather the one that their queries read") {
  const ToyGpt grouped{
      .layers = 1, .batch = 2, .hidden = 64, .heads = 32, .kv_heads = 4, .vocab = 16, .ffn = 64};
  const StagedGraph graph = stage(toy_gpt(grouped), "tp=8 micro_batch=2");
  CHECK(validate(graph).empty());
  CHECK(graph.placements[0].axes[1].name == "kv");
  CHECK(graph.placements[0].hierarchy() == std::vector<std::int64_t>{1, 4, 2});
  // The weight stays split: 4 heads x 2 columns are 1 column on each of 8 devices.
  CHECK(to_string(output(graph, "layer0.k.w.adamw").words) == "(B, S(1), S(1))");
  CHECK(to_string(output(graph, "layer0.k.heads").words) == "(B, S(2), B)");
  CHECK(to_string(output(graph, "layer0.q.heads").words) == "(B, S(2), S(2))");
  CHECK(to_string(output(graph, "layer0.attention").words) == "(B, S(2), S(2))");
  for (const std::size_t keys_or_values : {1U, 2U})
    CHECK(to_string(output(graph, "layer0.attention.grad_input", keys_or_values).words) ==
          "(B, S(2), P(sum))");
  // 2 x 6 x 8 keys of f32 are 384 bytes, 96 a head: each of the two devices that share a head gets
  // the half that it lacks, 2 x 48 bytes four times. Gathered whole, seven get 384 in all each
  // time.
  const StagedTensor& keys = input(graph, "layer0.k.heads", 0);
  CHECK(keys.global == TensorType{{2, 6, 8}, DType::kF32});
  CHECK(to_string(keys.words) == "(B, S(2), B)");
  const StagedOp& gather = graph.ops[keys.producer];
  CHECK(gather.kind == "all_gather");
  CHECK(gather.communication->group_axes == std::vector<std::size_t>{2});
  CHECK(boxing_bytes(keys.global, graph.placements[0], "(B, S(2), S(2))", "(B, S(2), B)") == 384);
  CHECK(boxing_bytes(keys.global, consecutive_placement({{"tp", 8}}), "S(2)", "B") == 7 * 384);
  CHECK(shard_of(keys.global.shape, keys.words, graph.placements[0].hierarchy(),
                 std::vector<std::int64_t>{0, 3, 1})
            .local_shape() == Shape{2, 6, 2});
  const std::string four = refusal([&] {
    ToyGpt model = grouped;
    model.kv_heads = 4, model.heads = 4;
    stage(toy_gpt(model), "tp=8 micro_batch=2");
  });
  CHECK(contains(four, "layer0.q.heads"));
  CHECK(contains(four, "tp=8"));
  CHECK(contains(four, "one of 4 groups"));
}

TEST_CASE("a batch that does not fit the strategy is refused") {
  CHECK(contains(refusal([] { stage(toy_gpt({}), "dp=3 micro_batch=1"); }),
                 "dp that would do: 1, 2, 4"));
  CHECK(contains(refusal([] { stage(toy_gpt({}), "dp=2 micro_batch=1"); }),
                 "built for another strategy"));
}

TEST_CASE("an edge between stages in the wrong direction is refused naming both ends") {
  LogicalGraph graph(builtin_operators());
  const TensorId late = add_input(graph, "late", 3, {{4, 6}, DType::kF32});
  graph.add({.kind = "scale",
             .name = "early",
             .attributes = {{"factor", 2.0}},
             .inputs = {late},
             .outputs = {},
             .layer = 1,
             .parameter = std::nullopt});
  const std::string text =
      refusal([&] { make_staged_graph(graph, parse_strategy("pp=2 micro_batch=4"), 1, nullptr); });
  CHECK(contains(text, "operator 'early' on stage 0 reads 'late' of operator 'late' on stage 1"));
}

TEST_CASE("a pin on the residual makes Megatron's sequence parallelism") {
  const std::string strategy = "dp=1 tp=2 micro_batch=4";
  const StagedGraph plain = stage(toy_gpt({}), strategy);
  const StagedGraph pinned = stage(toy_gpt({}), strategy + " pin=layer*.residual*:(B,S(1))");
  CHECK(validate(pinned).empty());
  const auto count = [](const StagedGraph& graph, const char* primitive) {
    return std::count_if(graph.ops.begin(), graph.ops.end(), [&](const StagedOp& op) {
      return op.communication && op.kind == primitive && op.rate == Rate::kPerMicroBatch;
    });
  };
  CHECK(count(plain, "reduce_scatter") == 0);
  CHECK(count(pinned, "reduce_scatter") > 0);
  CHECK(count(pinned, "all_reduce") < count(plain, "all_reduce"));
}

TEST_CASE("pins that fit nothing name what they meant and what would do") {
  const LogicalGraph training = make_training_graph(toy_gpt({}));
  const auto refused = [&](const std::string& pin) {
    try {
      make_staged_graph(training, parse_strategy("dp=1 tp=2 micro_batch=4 pin=" + pin), 3, nullptr);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(contains(refused("layer0.upp:(B,B)"), "did you mean 'layer0.up'"));
  CHECK(contains(refused("layer0.up[7]:(B,B)"), "operator 'layer0.up' (matmul) has 2 inputs"));
  CHECK(contains(refused("layer0.up:(B,S(9))"), "S(9) is no word for it, wanted S(0) to S("));
  // A partial value through a function that is not linear: the operator, both sides, candidates.
  const std::string partial = refused("layer0.gelu:(B,P(sum))");
  CHECK(contains(partial, "operator 'layer0.gelu' (gelu)"));
  CHECK(contains(partial, "output 'layer0.gelu' given (B, P(sum))"));
  CHECK(contains(partial, "[(B, S(1)) -> (B, S(1))]"));
  CHECK(contains(partial, "inputs: 'layer0."));
}

}  // namespace
}  // namespace sextant::stage_test
