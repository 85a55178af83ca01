// Which words cp leads to, counted by hand on a small GPT.
#include "compiler/words/context_words.h"

#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "core/base/error.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>

namespace sextant::context_words_test {
namespace {

StagedGraph stage(const LogicalGraph& forward, const std::string& text) {
  const Strategy strategy = parse_strategy(text);
  return make_staged_graph(make_training_graph(forward, strategy), strategy, 1, nullptr);
}

std::string words_of(const StagedGraph& graph, const std::string& op, std::size_t input) {
  const auto at = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const StagedOp& candidate) { return candidate.name == op; });
  REQUIRE(at != graph.ops.end());
  return to_string(graph.tensors[at->in[input]].words);
}

// Communications per micro-batch over cp, by primitive and phase, of one layer.
std::map<std::string, int> over_cp(const StagedGraph& graph, int layer) {
  std::map<std::string, int> counts;
  for (const StagedOp& op : graph.ops) {
    if (!op.communication || op.layer != layer || op.rate == Rate::kPerStep) continue;
    for (const std::size_t axis : op.communication->group_axes)
      if (graph.placements[static_cast<std::size_t>(op.stage)].axes[axis].name == "cp")
        ++counts[op.kind + ", " + std::string(to_string(op.phase))];
  }
  return counts;
}

std::string refusal(const LogicalGraph& forward, const std::string& strategy) {
  try {
    stage(forward, strategy);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// q, k, v there and o back; in backward the gradient of o there, those of q, k, v back.
TEST_CASE(
    "all-to-all attention exchanges four tensors forward and four backward, and nothing else") {
  const StagedGraph graph = stage(toy_gpt({}), "dp=2 cp=2 micro_batch=2 cp_mode=a2a");
  CHECK(validate(graph).empty());
  CHECK(over_cp(graph, 1) ==
        std::map<std::string, int>{{"all_to_all, forward", 4}, {"all_to_all, input_grad", 4}});
  CHECK(over_cp(graph, 0).empty());
  CHECK(over_cp(graph, 3).empty());
  CHECK(words_of(graph, "layer0.q", 0) == "(S(0), S(1), B)");
  for (const std::size_t input : {0U, 1U, 2U})
    CHECK(words_of(graph, "layer0.attention", input) == "(S(0), S(2), B)");
  CHECK(words_of(graph, "layer0.merge", 0) == "(S(0), S(1), B)");
}

TEST_CASE("heads that tp splits are split again inside its parts, so nothing crosses tp") {
  const StagedGraph graph = stage(toy_gpt({}), "cp=2 tp=2 micro_batch=4 cp_mode=a2a");
  CHECK(words_of(graph, "layer0.attention", 0) == "(B, S(2)^2, S(2)^1)");
  CHECK(over_cp(graph, 1) ==
        std::map<std::string, int>{{"all_to_all, forward", 4}, {"all_to_all, input_grad", 4}});
}

TEST_CASE("the loss and the gradients of parameters are partial over cp until the step's end") {
  const StagedGraph graph = stage(toy_gpt({}), "cp=2 micro_batch=4 cp_mode=a2a");
  for (const StagedOp& op : graph.ops)
    if (op.kind == "matmul_grad_weight" || op.name == "loss")
      CHECK(to_string(graph.tensors[op.out[0]].words) == "(B, P(sum), B)");
}

TEST_CASE("heads that cp x tp does not divide are refused with the numbers and what would do") {
  const LogicalGraph six = toy_gpt({.hidden = 12, .heads = 6, .kv_heads = 6});
  CHECK(contains(refusal(six, "cp=4 micro_batch=4 cp_mode=a2a"),
                 "operator 'layer0.attention' (attention) has 6 query and 6 key/value heads, which "
                 "cp=4 x tp=1 = 4 does not divide, as cp_mode=a2a needs; cp that would do with "
                 "tp=1: 1, 2, 3, 6, or cp_mode=ring"));
  const LogicalGraph grouped = toy_gpt({.hidden = 16, .heads = 8, .kv_heads = 2});
  CHECK(contains(refusal(grouped, "cp=2 tp=2 micro_batch=4 cp_mode=a2a"),
                 "has 8 query and 2 key/value heads, which cp=2 x tp=2 = 4 does not divide"));
  CHECK(refusal(grouped, "cp=2 micro_batch=4 cp_mode=a2a") == "accepted");
}

// Forward: keys and values go on C - 1 times. Backward: they do so again, and their gradients C
// times, the last time home.
TEST_CASE("ring attention over cp=4 shifts 6 chunks forward and 14 backward, and nothing else") {
  const StagedGraph graph = stage(toy_gpt({.sequence = 8}), "dp=2 cp=4 micro_batch=2 cp_mode=ring");
  CHECK(validate(graph).empty());
  CHECK(over_cp(graph, 1) ==
        std::map<std::string, int>{{"shift, forward", 6}, {"shift, input_grad", 14}});
  CHECK(over_cp(graph, 0).empty());
  CHECK(over_cp(graph, 3).empty());
  CHECK(words_of(graph, "layer0.q", 0) == "(S(0), S(1), B)");
  for (const std::size_t input : {0U, 1U, 2U})
    CHECK(words_of(graph, "layer0.attention.chunk3", input) == "(S(0), S(1), B)");
  CHECK(words_of(graph, "layer0.merge", 0) == "(S(0), S(1), B)");
}

TEST_CASE("a ring passes the heads of each tp part along cp alone") {
  const StagedGraph graph = stage(toy_gpt({}), "cp=2 tp=2 micro_batch=4 cp_mode=ring");
  int shifts = 0;
  for (const StagedOp& op : graph.ops) {
    if (op.kind != "shift") continue;
    ++shifts;
    CHECK(op.communication->group_axes == std::vector<std::size_t>{1});
    CHECK(op.queue == QueueRole::kCollective);
    CHECK(to_string(op.communication->from) == "(B, S(1), S(2))");
    CHECK(op.communication->from == op.communication->to);
  }
  CHECK(shifts == 2 * (2 + 2 + 4));
}

TEST_CASE("a sequence that a ring cannot cut evenly is refused before anything is planned") {
  CHECK(contains(refusal(toy_gpt({.sequence = 6}), "cp=4 micro_batch=4"),
                 "operator 'layer0.attention' (attention) sees a sequence of 6 positions, which "
                 "cp=4 does not divide, as cp_mode=ring needs; cp that would do: 1, 2, 3, 6; "
                 "sequences that would do: 4, 8; or cp_mode=a2a"));
}

TEST_CASE("cp is refused for a graph that has no attention") {
  CHECK(contains(refusal(toy_mlp(4, 6, 8, 5), "cp=2 micro_batch=4 cp_mode=ring"),
                 "but the graph has no attention"));
  CHECK(contains(refusal(toy_mlp(4, 6, 8, 5), "cp=2 micro_batch=4 cp_mode=a2a"),
                 "cp=2 splits the sequence that attention sees, but the graph has no attention"));
}

}  // namespace
}  // namespace sextant::context_words_test
