// A ring of partial attentions is attention: forward and backward on one device, where rolls are
// ordinary operators, against the operators it is made of.
#include "compiler/training/context_parallel.h"
#include "core/base/counter_rng.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"
#include "tests/conformance/operators/operator_runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace sextant::ring_attention_test {
namespace {

struct Heads {
  std::int64_t sequence = 12, heads = 4, kv_heads = 2, size = 3, value_size = 5;
  DType dtype = DType::kF64;
};

class AttentionGraph {
 public:
  explicit AttentionGraph(const Heads& c) {
    const auto accumulator = c.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    const TensorId q = input("q", {2, c.sequence, c.heads, c.size}, c.dtype);
    const TensorId k = input("k", {2, c.sequence, c.kv_heads, c.size}, c.dtype);
    const TensorId v = input("v", {2, c.sequence, c.kv_heads, c.value_size}, c.dtype);
    const TensorId d_o = input("do", {2, c.sequence, c.heads, c.value_size}, c.dtype);
    const Attributes attributes{{"group", c.heads / c.kv_heads}};
    const auto forward = op("attention", "attend", {q, k, v}, attributes);
    keep("o", forward[0]);
    keep("lse", forward[1]);
    const auto backward =
        op("attention_grad", "attend.grad", {q, k, v, forward[0], forward[1], d_o}, attributes);
    for (std::size_t i = 0; i < 3; ++i) keep(std::string("d") + "qkv"[i], backward[i]);
    CHECK(graph.tensor(forward[1]).type.dtype == accumulator);
  }

  LogicalGraph graph{builtin_operators()};

 private:
  TensorId input(const std::string& name, Shape shape, DType dtype) {
    return add_input(graph, name, 0, {.shape = std::move(shape), .dtype = dtype});
  }
  std::vector<TensorId> op(const std::string& kind, const std::string& name,
                           std::vector<TensorId> inputs, Attributes attributes) {
    return graph
        .op(graph.add({.kind = kind,
                       .name = name,
                       .attributes = std::move(attributes),
                       .inputs = std::move(inputs),
                       .outputs = {},
                       .phase = Phase::kForward,
                       .layer = 0,
                       .parameter = std::nullopt}))
        .outputs;
  }
  void keep(const std::string& name, TensorId tensor) {
    op("reshape", name, {tensor}, {{"shape", graph.tensor(tensor).type.shape.extents()}});
  }
};

LogicalGraph ring_of(const LogicalGraph& graph, std::int64_t cp) {
  Strategy strategy;
  strategy.cp = cp;
  return with_rings(graph, strategy);
}

// Scores of a few units, so that softmax is far from uniform.
TensorValues values_of(const LogicalGraph& graph) {
  TensorValues values;
  for (const LogicalOp& op : graph.ops()) {
    if (op.kind != "input") continue;
    const CounterRng rng(11, op.name);
    std::vector<double>& made = values[op.outputs[0]];
    made.resize(static_cast<std::size_t>(graph.tensor(op.outputs[0]).type.shape.elements()));
    for (std::size_t i = 0; i < made.size(); ++i) made[i] = 4 * rng.uniform(i) - 2;
  }
  evaluate(graph, values);
  return values;
}

const std::vector<double>& values_at(const LogicalGraph& graph, const TensorValues& values,
                                     const std::string& name) {
  return values.at(graph.output(*graph.find_op(name)));
}

// Largest difference relative to the largest value; infinite where one is not finite.
double error_of(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (!std::isfinite(found[i])) return std::numeric_limits<double>::infinity();
    error = std::max(error, std::abs(found[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  return error / largest;
}

double worst_error(const Heads& heads, const Heads& reference, std::int64_t cp) {
  const LogicalGraph whole = AttentionGraph(reference).graph;
  const LogicalGraph ring = ring_of(AttentionGraph(heads).graph, cp);
  const TensorValues expected = values_of(whole), found = values_of(ring);
  double worst = 0;
  for (const char* name : {"o", "lse", "dq", "dk", "dv"})
    worst =
        std::max(worst, error_of(values_at(ring, found, name), values_at(whole, expected, name)));
  return worst;
}

TEST_CASE("a ring of any number of chunks gives attention and its gradients to 1e-12 in f64") {
  for (const std::int64_t cp : {2, 3, 4, 6, 12}) {
    CAPTURE(cp);
    CHECK(worst_error({}, {}, cp) < 1e-12);
    const Heads odd{.heads = 3, .kv_heads = 3, .size = 7, .value_size = 1};
    CHECK(worst_error(odd, odd, cp) < 1e-12);
    const Heads one{.heads = 6, .kv_heads = 1};
    CHECK(worst_error(one, one, cp) < 1e-12);
  }
}

// Sums of at most 12 terms; every merge and every roll of a gradient rounds once more.
TEST_CASE("a ring in f32 and bf16 differs from f64 by roundings") {
  for (const std::int64_t cp : {2, 4}) {
    CHECK(worst_error({.dtype = DType::kF32}, {}, cp) < 1e-5);
    const double bf16 = worst_error({.dtype = DType::kBF16}, {}, cp);
    CHECK(bf16 < 0.05);  // inputs of 2^-9 relative, scores of up to 12
    CHECK(bf16 > 1e-4);
  }
}

TEST_CASE("in bf16 a ring rounds no more often than attention does") {
  const Heads bf16{.dtype = DType::kBF16};
  // Both round their inputs alike and each result once: half a unit in the last place, twice.
  for (const std::int64_t cp : {2, 4}) CHECK(worst_error(bf16, bf16, cp) < 1.0 / 256);
}

TEST_CASE("scores that overflow an exponential are merged without loss") {
  AttentionGraph built({.sequence = 8});
  const LogicalGraph ring = ring_of(built.graph, 4);
  const auto scaled = [](const LogicalGraph& graph) {
    TensorValues values;
    for (const LogicalOp& op : graph.ops()) {
      if (op.kind != "input") continue;
      const CounterRng rng(5, op.name);
      std::vector<double>& made = values[op.outputs[0]];
      made.resize(static_cast<std::size_t>(graph.tensor(op.outputs[0]).type.shape.elements()));
      const double scale = op.name == "q" ? 1e4 : 1;
      for (std::size_t i = 0; i < made.size(); ++i) made[i] = scale * (2 * rng.uniform(i) - 1);
    }
    evaluate(graph, values);
    return values;
  };
  const TensorValues expected = scaled(built.graph), found = scaled(ring);
  for (const char* name : {"o", "lse", "dq", "dk", "dv"}) {
    CAPTURE(name);
    CHECK(error_of(values_at(ring, found, name), values_at(built.graph, expected, name)) < 1e-10);
  }
}

TEST_CASE("a ring rolls keys and values forward C-1 times, gradients C times, and keeps names") {
  const LogicalGraph ring = ring_of(AttentionGraph({}).graph, 4);
  int rolls = 0, parts = 0, merges = 0;
  for (const LogicalOp& op : ring.ops()) {
    rolls += op.kind == "roll" ? 1 : 0;
    parts += op.kind.starts_with("attention_chunks") ? 1 : 0;
    merges += op.kind == "attention_merge" ? 1 : 0;
    CHECK(op.kind != "attention");
    CHECK(op.kind != "attention_grad");
  }
  CHECK(rolls == 2 * 3 + 2 * 3 + 2 * 4);  // forward; backward: keys and values, their gradients
  CHECK(parts == 4 + 4);
  CHECK(merges == 3);
  CHECK(ring.op(*ring.find_op("attend")).kind == "attention_merge");
  CHECK(ring.find_op("attend.k3").has_value());
}

TEST_CASE("other strategies leave the graph as it is") {
  const LogicalGraph graph = AttentionGraph({}).graph;
  Strategy strategy;
  CHECK(with_rings(graph, strategy).ops().size() == graph.ops().size());
  strategy.cp = 4;
  strategy.context = ContextMode::kAllToAll;
  CHECK(with_rings(graph, strategy).find_op("attend.chunk0") == std::nullopt);
}

TEST_CASE(
    "a sequence that cp does not divide is refused with the lengths and degrees that would do") {
  const LogicalGraph graph = AttentionGraph({.sequence = 10}).graph;
  CHECK_THROWS_WITH_AS(
      ring_of(graph, 4),
      "operator 'attend' (attention) sees a sequence of 10 positions, which cp=4 does not divide, "
      "as "
      "cp_mode=ring needs; cp that would do: 1, 2, 5, 10; sequences that would do: 8, 12; or "
      "cp_mode=a2a",
      Error);
}

}  // namespace
}  // namespace sextant::ring_attention_test
