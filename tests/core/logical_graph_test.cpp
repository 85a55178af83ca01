// The logical graph: checked appending, the index of names, uses, and the Boost.Graph views.
#include "core/graphs/logical_graph.h"

#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"

#include <doctest/doctest.h>

#include <string>

namespace sextant::logical_graph_test {
namespace {

TensorId add_weight(LogicalGraph& graph, const std::string& name, int layer = 0) {
  return add_parameter(graph, name, layer, {.shape = {4, 4}, .dtype = DType::kF32}, {});
}

LogicalOp operation(std::string kind, std::string name, std::vector<TensorId> inputs,
                    int layer = 0) {
  LogicalOp op;
  op.kind = std::move(kind);
  op.name = std::move(name);
  op.inputs = std::move(inputs);
  op.layer = layer;
  return op;
}

std::string refusal(LogicalGraph& graph, LogicalOp op) {
  try {
    graph.add(std::move(op));
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("operators are found by name, with their uses, types and layers") {
  LogicalGraph graph(builtin_operators());
  const TensorId a = add_weight(graph, "a"), b = add_weight(graph, "b", 3);
  const OpId sum = graph.add(operation("add", "sum", {a, b}, 1));
  const OpId twice = graph.add(operation("add", "twice", {graph.output(sum), graph.output(sum)}));
  CHECK(graph.find_op("sum") == sum);
  CHECK(graph.find_op("su") == std::nullopt);
  CHECK(graph.num_layers() == 4);
  CHECK(graph.tensor(a).role == TensorRole::kParameter);
  CHECK(graph.tensor(graph.output(sum)).role == TensorRole::kActivation);
  CHECK(graph.tensor(graph.output(sum)).type.shape == Shape{4, 4});
  REQUIRE(graph.uses(graph.output(sum)).size() == 2);
  CHECK(graph.uses(graph.output(sum))[1].op == twice);
  CHECK(graph.uses(graph.output(sum))[1].input == 1);
  CHECK(graph.uses(a).size() == 1);
}

TEST_CASE("further outputs are named after the first") {
  LogicalGraph graph(builtin_operators());
  const TensorId x = add_weight(graph, "x");
  const TensorId gamma = add_parameter(graph, "gamma", 0, {.shape = {4}, .dtype = DType::kF32}, {});
  LogicalOp norm = operation("rms_norm", "norm", {x, gamma});
  norm.attributes.set("epsilon", 1e-5);
  const OpId id = graph.add(norm);
  CHECK(graph.tensor(graph.output(id, 0)).name == "norm");
  CHECK(graph.tensor(graph.output(id, 1)).name == "norm:1");
  CHECK(graph.tensor(graph.output(id, 1)).output_index == 1);
}

TEST_CASE("what cannot be appended is refused by the operator's name and changes nothing") {
  LogicalGraph graph(builtin_operators());
  const TensorId a = add_weight(graph, "a");
  const TensorId narrow =
      add_parameter(graph, "narrow", 0, {.shape = {4, 2}, .dtype = DType::kF32}, {});
  CHECK(contains(refusal(graph, operation("add", "a", {a, a})), "two operators are named 'a'"));
  CHECK(contains(refusal(graph, operation("ad", "x", {a, a})), "operator 'x'"));
  CHECK(contains(refusal(graph, operation("add", "x", {a, TensorId(2)})),
                 "operator 'x' reads tensor 2, which does not exist yet"));
  CHECK(contains(refusal(graph, operation("add", "x", {a, TensorId()})), "tensor -1"));
  CHECK(contains(refusal(graph, operation("add", "x", {a})),
                 "operator 'x': add has 1 inputs, wanted 2 to 2"));
  CHECK(contains(refusal(graph, operation("add", "x", {a, narrow})), "operator 'x': add"));
  CHECK(contains(refusal(graph, operation("add", "x", {a, a}, -1)), "layer -1 is negative"));
  CHECK(graph.ops().size() == 2);
  CHECK(graph.tensors().size() == 2);
  CHECK(graph.uses(a).empty());
  CHECK(graph.find_op("x") == std::nullopt);
}

TEST_CASE("names are found while the index grows, and in copies") {
  LogicalGraph graph(builtin_operators());
  for (int i = 0; i < 1000; ++i) add_weight(graph, "w" + std::to_string(i));
  const LogicalGraph copy = graph;
  add_weight(graph, "later");
  for (int i = 0; i < 1000; ++i) {
    CHECK(graph.find_op("w" + std::to_string(i)) == OpId(i));
    CHECK(copy.find_op("w" + std::to_string(i)) == OpId(i));
  }
  CHECK(copy.find_op("later") == std::nullopt);
}

TEST_CASE("the loss is two scalars of the graph") {
  LogicalGraph graph(builtin_operators());
  const TensorId a = add_weight(graph, "a");
  const TensorId scalar =
      add_parameter(graph, "scalar", 0, {.shape = {}, .dtype = DType::kF32}, {});
  CHECK_THROWS_AS(graph.set_loss(a, scalar), Error);
  CHECK_THROWS_AS(graph.set_loss(scalar, TensorId(7)), Error);
  CHECK_FALSE(graph.loss_sum().has_value());
  graph.set_loss(scalar, scalar);
  CHECK(graph.loss_sum() == scalar);
}

TEST_CASE("graphviz text names operators and the types of what flows between them") {
  LogicalGraph graph(builtin_operators());
  const TensorId a = add_weight(graph, "a");
  graph.add(operation("add", "su\"m", {a, a}));
  const std::string text = to_graphviz(graph);
  CHECK(contains(text, "0[label=\"a\nparameter\"]"));
  CHECK(contains(text, "1[label=\"su\\\"m\nadd\"]"));
  CHECK(contains(text, "0->1 [label=\"4x4 f32\"]"));
  // Both uses are edges.
  CHECK(contains(text.substr(text.find("0->1") + 1), "0->1"));
}

TEST_CASE("the topological order is the order of insertion") {
  LogicalGraph graph(builtin_operators());
  const TensorId a = add_weight(graph, "a");
  const TensorId late = add_weight(graph, "late");
  const OpId first = graph.add(operation("add", "first", {late, late}));
  add_weight(graph, "lone");
  graph.add(operation("add", "last", {a, graph.output(first)}));
  std::vector<OpId> wanted;
  for (std::size_t i = 0; i < graph.ops().size(); ++i) wanted.push_back(OpId(i));
  CHECK(topological_order(graph) == wanted);
  CHECK(topological_order(LogicalGraph(builtin_operators())).empty());
}

}  // namespace
}  // namespace sextant::logical_graph_test
