// Which products are cut into pieces, what that changes and what it leaves alone, and that the
// collective of a piece really runs beside the product of the next.
#include "compiler/words/product_pieces.h"

#include "compiler/expand/expand.h"
#include "compiler/training/training_graph.h"
#include "compiler/words/fusion.h"
#include "compiler/words/stage.h"
#include "core/base/error.h"
#include "simulator/costs/models.h"
#include "simulator/modes/simulate.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace sextant::product_pieces_test {
namespace {

StagedGraph stage(const LogicalGraph& forward, const std::string& text) {
  const Strategy strategy = parse_strategy(text);
  const StagedGraph graph =
      make_staged_graph(make_training_graph(forward, strategy), strategy, 2, nullptr);
  CHECK(validate(graph).empty());
  return graph;
}

const StagedTensor& tensor(const StagedGraph& graph, StagedTensorId index) {
  return graph.tensors[index];
}

const StagedOp& find(const StagedGraph& graph, const std::string& name) {
  const auto at = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const StagedOp& op) { return op.name == name; });
  if (at == graph.ops.end()) FAIL("no operator " << name);
  return *at;
}

bool has(const StagedGraph& graph, const std::string& name) {
  return std::any_of(graph.ops.begin(), graph.ops.end(),
                     [&](const StagedOp& op) { return op.name == name; });
}

// Collectives per micro-batch of one layer, by kind and phase.
using Counts = std::map<std::string, int>;
Counts collectives(const StagedGraph& graph, int layer) {
  Counts counts;
  for (const StagedOp& op : graph.ops)
    if (op.communication && op.layer == layer && op.rate == Rate::kPerMicroBatch)
      ++counts[op.kind + ", " + std::string(to_string(op.phase))];
  return counts;
}

// Elements that they bring per kind, in the whole graph.
std::map<std::string, std::int64_t> elements(const StagedGraph& graph) {
  std::map<std::string, std::int64_t> moved;
  for (const StagedOp& op : graph.ops)
    if (op.communication && !op.out.empty() && op.rate == Rate::kPerMicroBatch)
      moved[op.kind] += tensor(graph, op.out[0]).global.shape.elements();
  return moved;
}

std::vector<std::int64_t> rows_of(const StagedGraph& graph, const std::string& product,
                                  std::size_t dim) {
  std::vector<std::int64_t> rows;
  for (int piece = 0; has(graph, product + ".piece" + std::to_string(piece)); ++piece)
    rows.push_back(tensor(graph, find(graph, product + ".piece" + std::to_string(piece)).out[0])
                       .global.shape[dim]);
  return rows;
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

TEST_CASE("products that leave tp pending become pieces, each reduced before they are joined") {
  const LogicalGraph forward = toy_gpt({.sequence = 7});
  const StagedGraph graph = stage(forward, "tp=2 micro_batch=4 pieces=3");
  for (const std::string product : {"layer0.o", "layer0.down", "layer1.o", "layer1.down"}) {
    CAPTURE(product);
    CHECK(rows_of(graph, product, 1) == std::vector<std::int64_t>{3, 2, 2});
    const StagedOp& joined = find(graph, product);
    CHECK(joined.kind == "concat");
    REQUIRE(joined.in.size() == 3);
    for (std::size_t piece = 0; piece < 3; ++piece) {
      const StagedTensor& reduced = tensor(graph, joined.in[piece]);
      CHECK(to_string(reduced.words) == "(B, B)");
      const StagedOp& collective = graph.ops[reduced.producer];
      CHECK(collective.kind == "all_reduce");
      CHECK(tensor(graph, collective.in[0]).name == product + ".piece" + std::to_string(piece));
      CHECK(to_string(tensor(graph, collective.in[0]).words) == "(B, P(sum))");
    }
  }
  // Two forward; weight gradients hide the two of backward.
  CHECK(collectives(graph, 1) == Counts{{"all_reduce, forward", 6}, {"all_reduce, input_grad", 2}});
  CHECK(elements(graph) == elements(stage(forward, "tp=2 micro_batch=4")));
  for (const std::string whole : {"layer0.q", "layer0.up", "logits"})
    CHECK(find(graph, whole).kind == "matmul");
}

TEST_CASE(
    "backward is cut where the schedule has no weight gradients beside it, sums of products "
    "as one") {
  const StagedGraph graph = stage(toy_gpt({}), "tp=2 pp=2 micro_batch=4 schedule=zb-h1 pieces=2");
  CHECK(collectives(graph, 1)["all_reduce, forward"] == 4);
  CHECK(collectives(graph, 1)["all_reduce, input_grad"] == 4);
  // q, k and v read one tensor: three products per piece, two sums, one reduction.
  int products = 0, sums = 0;
  for (const StagedOp& op : graph.ops)
    if (op.layer == 1 && op.phase == Phase::kInputGrad && contains(op.name, ".piece")) {
      products += op.kind == "matmul" ? 1 : 0;
      sums += op.kind == "add" ? 1 : 0;
    }
  CHECK(products == 2 * (3 + 1));
  CHECK(sums == 2 * 2);
}

TEST_CASE("sp=on cuts every part of the sequence, so that pieces stay where they are") {
  const LogicalGraph forward = toy_gpt({.sequence = 6});
  const StagedGraph graph = stage(forward, "tp=2 micro_batch=4 sp=on pieces=2");
  CHECK(rows_of(graph, "layer0.down", 2) == std::vector<std::int64_t>{2, 1});
  CHECK(tensor(graph, find(graph, "layer0.down.piece0").out[0]).global.shape ==
        Shape({4, 2, 2, 8}));
  const StagedOp& joined = find(graph, "layer0.down.joined");
  for (const StagedTensorId piece : joined.in) {
    const StagedTensor& boxed = tensor(graph, piece);
    CHECK(to_string(boxed.words) == "(B, S(1))");
    CHECK(graph.ops[boxed.producer].kind == "reduce_scatter");
  }
  CHECK(to_string(tensor(graph, find(graph, "layer0.down").out[0]).words) == "(B, S(1))");
  const StagedGraph whole = stage(forward, "tp=2 micro_batch=4 sp=on");
  CHECK(elements(graph) == elements(whole));
  Counts twice = collectives(whole, 1);
  for (auto& [kind, count] : twice)
    if (kind.starts_with("reduce_scatter")) count *= 2;
  CHECK(collectives(graph, 1) == twice);
}

TEST_CASE("a batch that dp splits is cut inside its parts") {
  const StagedGraph graph = stage(toy_mlp(6, 6, 8, 5), "dp=2 tp=2 micro_batch=3 pieces=3");
  CHECK(rows_of(graph, "down", 1) == std::vector<std::int64_t>{1, 1, 1});
  CHECK(tensor(graph, find(graph, "down.piece2").out[0]).global.shape.extents()[0] == 2);
}

// The words of all tensors that both graphs have; what was pending is boxed now.
TEST_CASE("pieces leave the words of everything else as they were") {
  for (const std::string strategy :
       {"tp=2 micro_batch=4", "dp=2 tp=2 micro_batch=2 zero=3 schedule=zb-h1",
        "tp=2 micro_batch=4 sp=on", "cp=2 tp=2 micro_batch=4 schedule=zb-h1",
        "cp=2 tp=2 micro_batch=4 cp_mode=a2a", "dp=2 tp=2 pp=2 micro_batch=2 recompute=full zero=2",
        "tp=4 micro_batch=4 pin=layer*.gelu:(B,S(2))"}) {
    CAPTURE(strategy);
    const LogicalGraph forward = toy_gpt({.sequence = 8});
    const StagedGraph whole = stage(forward, strategy),
                      cut = stage(forward, strategy + " pieces=2");
    std::map<std::string, std::string> words;
    for (const StagedTensor& made : cut.tensors) words[made.name] = to_string(made.words);
    std::size_t pending = 0;
    for (const StagedTensor& made : whole.tensors) {
      const auto found = words.find(made.name);
      CAPTURE(made.name);
      // Boxed ones have other names where a piece was boxed, and terms of a sum are pieces alone.
      if (contains(made.name, " as ")) continue;
      if (found == words.end() && words.count(made.name + ".piece1") != 0) continue;
      REQUIRE(found != words.end());
      if (found->second == to_string(made.words)) continue;
      ++pending;
      CHECK(contains(to_string(made.words), "P(sum)"));
      CHECK_FALSE(contains(found->second, "P(sum)"));
    }
    CHECK(pending >= 4);
    CHECK(elements(cut) == elements(whole));
  }
}

TEST_CASE("what backward repeats is repeated in the same pieces") {
  const StagedGraph graph = stage(toy_gpt({}), "tp=2 micro_batch=4 recompute=full pieces=2");
  CHECK(rows_of(graph, "layer0.o", 1) == std::vector<std::int64_t>{3, 3});
  int repeated = 0;
  for (const StagedOp& op : graph.ops)
    if (op.phase == Phase::kRecompute && op.kind == "matmul" && contains(op.name, ".piece"))
      ++repeated;
  CHECK(repeated == 2 * 2);  // `o` of both blocks: nobody needs `down` again
  CHECK(collectives(graph, 1)["all_reduce, recompute"] == 2);
}

TEST_CASE("pieces that cannot be are refused with the operator, its extents and what would do") {
  CHECK(contains(refusal(toy_gpt({.sequence = 6}), "tp=2 micro_batch=4 pieces=7"),
                 "pieces=7: operator 'layer0.o' (matmul) makes 6 along dim 1 of 4x6x8; pieces that "
                 "would do: 1 to 6"));
  CHECK(contains(refusal(toy_gpt({.sequence = 6}), "tp=2 micro_batch=4 sp=on pieces=4"),
                 "makes 6 along dim 1 of 4x6x8 in 2 parts; pieces that would do: 1 to 3"));
  CHECK(contains(refusal(toy_gpt({.sequence = 7}), "tp=2 micro_batch=4 sp=on pieces=2"),
                 "makes 7 along dim 1 of 4x7x8, which is boxed to (B, S(1)): pieces want 2 equal "
                 "parts; parts that would do: 1, 7"));
}

TEST_CASE("what the user pinned stays whole, and a model without a product to cut is refused") {
  const StagedGraph graph =
      stage(toy_gpt({}), "tp=2 micro_batch=4 pieces=2 pin=layer0.o:(B,P(sum))");
  CHECK(find(graph, "layer0.o").kind == "matmul");
  CHECK(find(graph, "layer1.o").kind == "concat");
  CHECK(contains(refusal(toy_gpt({}),
                         "tp=2 micro_batch=4 pieces=2 pin=layer*.o:(B,P(sum)) "
                         "pin=layer*.down:(B,P(sum))"),
                 "pieces=2: no product of the model is pending over tp=2 and boxed"));
}

// --- in modelled time ----------------------------------------------------------------------------

struct Simulated {
  Simulation simulation;
  const TraceSlice& slice(const std::string& part, QueueRole queue) const {
    const auto found = std::find_if(simulation.slices.begin(), simulation.slices.end(),
                                    [&](const TraceSlice& slice) {
                                      return slice.queue == queue && contains(slice.name, part) &&
                                             contains(slice.name, "layer1.");
                                    });
    if (found == simulation.slices.end()) FAIL("no run of " << part);
    return *found;
  }
};

Simulated simulate_gpt(const std::string& text, bool fuses) {
  Cluster cluster = load_cluster("dgx-h100");
  if (!fuses) cluster.device.fused.clear();
  const auto cost = make_roofline(cluster, DType::kBF16);
  const auto network = make_alpha_beta(cluster);
  const Strategy strategy = parse_strategy(text);
  const LogicalGraph forward = toy_gpt({.layers = 2,
                                        .batch = 1,
                                        .sequence = 2048,
                                        .hidden = 8192,
                                        .heads = 64,
                                        .kv_heads = 64,
                                        .vocab = 1024,
                                        .ffn = 32768,
                                        .compute = DType::kBF16});
  SimulateOptions options;
  options.keep_slices = true;
  return {simulate(compile(make_training_graph(forward, strategy), strategy, 2, *cost, *network),
                   *cost, *network, options)};
}

TEST_CASE("the collective of a piece runs beside the product of the next, in every strategy") {
  for (const std::string strategy :
       {"tp=8", "tp=8 sp=on", "tp=8 schedule=zb-h1", "tp=8 schedule=zb-h1 sp=on recompute=full"})
    for (const bool fuses : {true, false}) {
      CAPTURE(strategy);
      CAPTURE(fuses);
      const Simulated cut = simulate_gpt(strategy + " pieces=2", fuses);
      const std::string kind = contains(strategy, "sp=on") ? "reduce_scatter" : "all_reduce";
      const TraceSlice& reduced = cut.slice("down.piece0." + kind, QueueRole::kCollective);
      const TraceSlice& next = cut.slice("down.piece1", QueueRole::kCompute);
      CHECK(reduced.begin < next.end);
      CHECK(next.begin < reduced.end);
      // It starts with the product of the next piece, on the other queue.
      CHECK(reduced.begin <= next.begin);
      CHECK(cut.slice("down.piece1." + kind, QueueRole::kCollective).begin >= next.end);
    }
}

TEST_CASE("pieces hide communication: less of it is exposed, and the step is shorter") {
  for (const std::string strategy : {"tp=8", "tp=8 sp=on", "tp=8 schedule=zb-h1 sp=on"}) {
    CAPTURE(strategy);
    const Simulation whole = simulate_gpt(strategy, true).simulation;
    const Simulation cut = simulate_gpt(strategy + " pieces=2", true).simulation;
    CHECK(cut.parts.exposed_communication.mean_s < 0.95 * whole.parts.exposed_communication.mean_s);
    CHECK(cut.step_time < whole.step_time);
  }
}

TEST_CASE("a device that reads and joins pieces in its kernels copies nothing for them") {
  const Strategy strategy = parse_strategy("tp=8 micro_batch=1 pieces=4");
  const LogicalGraph forward = toy_gpt({.batch = 1, .sequence = 8, .heads = 8, .kv_heads = 8});
  const auto cost = make_roofline(load_cluster("dgx-h100"), DType::kF32);
  const StagedGraph fused = fuse_operators(
      make_staged_graph(make_training_graph(forward, strategy), strategy, 2, nullptr), *cost,
      strategy.schedule);
  std::map<std::string, int> kinds;
  for (const StagedOp& op : fused.ops) ++kinds[op.kind];
  CHECK(kinds["slice"] == 0);
  CHECK(kinds["concat"] == 0);
  CHECK(kinds["slice_matmul"] + kinds["reshape_slice_matmul"] == 4 * 4);  // `o`, `down` twice
  CHECK(kinds["concat_bias"] == 4);
}

}  // namespace
}  // namespace sextant::product_pieces_test
