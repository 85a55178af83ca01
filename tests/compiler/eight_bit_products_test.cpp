// Which products get operands of 8 bits, what makes those, and in which words.
#include "compiler/training/eight_bit_products.h"

#include "compiler/strategy/strategy.h"
#include "compiler/training/training_graph.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "tests/compiler/toy_models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sextant::eight_bit_products_test {
namespace {

LogicalGraph trained(const LogicalGraph& forward, const std::string& strategy) {
  return make_training_graph(forward, parse_strategy(strategy));
}

ToyGpt wide_gpt(DType compute = DType::kBF16) {
  return {.layers = 2,
          .batch = 4,
          .sequence = 8,
          .hidden = 32,
          .heads = 4,
          .kv_heads = 4,
          .vocab = 48,
          .ffn = 64,
          .compute = compute};
}

std::map<std::string, int> kinds_of(const LogicalGraph& graph) {
  std::map<std::string, int> kinds;
  for (const LogicalOp& op : graph.ops()) ++kinds[op.kind];
  return kinds;
}

TEST_CASE(
    "products of layers have 8-bit operands, those of the head and all else are as they were") {
  const LogicalGraph forward = toy_gpt(wide_gpt());
  const LogicalGraph plain = trained(forward, "micro_batch=4");
  const LogicalGraph narrow = trained(forward, "micro_batch=4 precision=fp8");
  for (const LogicalOp& op : plain.ops()) {
    CAPTURE(op.name);
    const auto found = narrow.find_op(op.name);
    const bool is_product =
        op.role == OperatorRole::kProduct || op.role == OperatorRole::kProductWeightGradient;
    if (op.role == OperatorRole::kCast) continue;  // of weights that nobody else reads
    REQUIRE(found.has_value());
    const LogicalOp& now = narrow.op(*found);
    const bool is_head = op.layer == plain.num_layers() - 1 || op.name.starts_with("head");
    CHECK((now.kind == "scaled_matmul") == (is_product && !is_head));
    CHECK(now.phase == op.phase);
    CHECK(now.layer == op.layer);
    for (std::size_t i = 0; i < op.outputs.size(); ++i)
      CHECK(narrow.tensor(now.outputs[i]).type == plain.tensor(op.outputs[i]).type);
  }
  const std::map<std::string, int> kinds = kinds_of(narrow), before = kinds_of(plain);
  // Per block q, k, v, o, up and down: three products each.
  CHECK(kinds.at("scaled_matmul") == 2 * 6 * 3);
  CHECK(kinds.at("matmul") + kinds.at("matmul_grad_weight") == 3);
  // Weights 6; activations: the inputs of q, k and v together, of o, up and down; gradients 6.
  CHECK(kinds.at("quantize") == 2 * (6 + 4 + 6));
  CHECK(kinds.at("quantize_scale") == kinds.at("quantize"));
  CHECK(kinds.at("cast") == before.at("cast") - 2 * 6);
}

TEST_CASE("a tensor is quantized once, as its products want it, gradients in e5m2") {
  const LogicalGraph graph = trained(toy_gpt(wide_gpt()), "micro_batch=4 precision=fp8");
  std::set<TensorId> quantized;
  for (const LogicalOp& op : graph.ops()) {
    if (op.kind != "quantize") continue;
    CAPTURE(op.name);
    const LogicalTensor& x = graph.tensor(op.inputs[0]);
    CHECK(quantized.insert(op.inputs[0]).second);
    const bool is_weight = x.role == TensorRole::kParameter;
    CHECK(op.attributes.text("dtype") == (x.role == TensorRole::kGradient ? "e5m2" : "e4m3"));
    CHECK(x.type.dtype == (is_weight ? DType::kF32 : DType::kBF16));
    CHECK(op.attributes.text("layout") == std::string("both"));
    CHECK(op.phase == (x.role == TensorRole::kGradient ? Phase::kInputGrad : Phase::kForward));
    // Its scale is that of the same tensor, for the same type.
    const LogicalOp& scale = graph.op(graph.tensor(op.inputs[1]).producer);
    CHECK(scale.kind == "quantize_scale");
    CHECK(scale.inputs[0] == op.inputs[0]);
    CHECK(scale.attributes.text("dtype") == op.attributes.text("dtype"));
    for (const TensorId output : op.outputs)
      for (const LogicalGraph::Use& use : graph.uses(output)) {
        const LogicalOp& reader = graph.op(use.op);
        CHECK(reader.kind == "scaled_matmul");
        CHECK(reader.inputs[use.input + 2] == op.inputs[1]);
      }
  }
}

TEST_CASE("without the setting a graph and its key are what they were") {
  const LogicalGraph forward = toy_gpt(wide_gpt());
  const Strategy plain = parse_strategy("micro_batch=4 precision=compute");
  CHECK(plain == parse_strategy("micro_batch=4"));
  CHECK(to_string(plain).find("precision") == std::string::npos);
  CHECK(training_graph_key(plain).find("precision") == std::string::npos);
  const Strategy narrow = parse_strategy("micro_batch=4 precision=fp8");
  CHECK(parse_strategy(to_string(narrow)) == narrow);
  CHECK(training_graph_key(narrow) != training_graph_key(plain));
  CHECK(kinds_of(make_training_graph(forward, plain)).count("quantize") == 0);
}

TEST_CASE("a model whose layers have loose extents is refused by name") {
  try {
    trained(toy_gpt({.layers = 2, .hidden = 8, .ffn = 12}), "micro_batch=4 precision=fp8");
    FAIL("a model without such layers");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    CHECK(std::string(error.what()).find("precision=fp8") != std::string::npos);
  }
}

TEST_CASE("recomputation repeats what is quantized per micro-batch, never weights") {
  const LogicalGraph graph =
      trained(toy_gpt(wide_gpt()), "micro_batch=4 precision=fp8 recompute=full");
  int repeated = 0;
  for (const LogicalOp& op : graph.ops()) {
    if (op.kind != "quantize" || op.phase != Phase::kRecompute) continue;
    ++repeated;
    CHECK(graph.tensor(op.inputs[0]).role != TensorRole::kParameter);
  }
  CHECK(repeated == 2 * 4);
}

}  // namespace
}  // namespace sextant::eight_bit_products_test
