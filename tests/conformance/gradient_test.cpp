// Every gradient rule against central differences in f64, through the whole of autodiff: the
// floating inputs of an example become parameters, the loss is a cross-entropy of its first output.
// Kinds and inputs come from the registry, so a new rule is covered by existing.
#include "compiler/autodiff.h"
#include "core/counter_rng.h"
#include "core/operator.h"
#include "core/operators/loss.h"
#include "core/operators/sources.h"
#include "tests/conformance/gradient_check.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

TensorId add_op(LogicalGraph& graph, std::string kind, std::string name,
                std::vector<TensorId> inputs, Attributes attributes = {}) {
  return graph.output(graph.add({.kind = std::move(kind),
                                 .name = std::move(name),
                                 .attributes = std::move(attributes),
                                 .inputs = std::move(inputs),
                                 .outputs = {},
                                 .phase = Phase::kForward,
                                 .layer = 0,
                                 .parameter = std::nullopt}));
}

// Logits of three classes for a result that has one or none: a loss over one class has no slope.
TensorId classes_of(Problem& problem, TensorId result) {
  const TensorType type = problem.graph.tensor(result).type;
  const Shape& shape = type.shape;
  if (shape.rank() > 0 && shape[shape.rank() - 1] != 1) return result;
  if (shape.rank() == 0)
    result = add_op(problem.graph, "reshape", "column", {result},
                    {{"shape", std::vector<std::int64_t>{1}}});
  const TensorId weights = add_input(problem.graph, "weights", 0, {{1, 3}, type.dtype});
  problem.values[weights] = {1.0, -0.5, 0.25};
  return add_op(problem.graph, "matmul", "logits", {result, weights});
}

void add_loss(Problem& problem, TensorId result) {
  const TensorId logits = classes_of(problem, result);
  const Shape& shape = problem.graph.tensor(logits).type.shape;
  const std::int64_t classes = shape[shape.rank() - 1];
  std::vector<std::int64_t> leading(shape.extents().begin(), shape.extents().end() - 1);
  const TensorId labels =
      add_input(problem.graph, "labels", 0, {Shape(std::move(leading)), DType::kI32});
  problem.values[labels] = random_integers(
      CounterRng(2, "labels"), problem.graph.tensor(labels).type.shape.elements(), 0, classes - 1);
  const LossTensors loss = softmax_cross_entropy(problem.graph, logits, labels, "loss", 0);
  problem.graph.set_loss(loss.loss_sum, loss.token_count);
}

Problem problem_of(const std::string& kind, const OperatorExample& example) {
  Problem problem;
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < example.inputs.size(); ++i) {
    const TensorType& type = example.inputs[i];
    const std::string name = "in" + std::to_string(i);
    const CounterRng rng(1, kind + name);
    if (is_floating(type.dtype)) {
      inputs.push_back(add_parameter(problem.graph, name, 0, type, {}));
      problem.values[inputs.back()] = random_values(rng, type.shape.elements(), -1, 1);
    } else {
      const auto [first, last] =
          example.ranges.empty() ? std::pair<std::int64_t, std::int64_t>{0, 1} : example.ranges[i];
      inputs.push_back(add_input(problem.graph, name, 0, type));
      problem.values[inputs.back()] = random_integers(rng, type.shape.elements(), first, last);
    }
  }
  add_loss(problem, add_op(problem.graph, kind, "op", inputs, example.attributes));
  return problem;
}

bool has_elements(const Problem& problem) {
  return problem.graph.tensor(problem.graph.output(*problem.graph.find_op("op")))
             .type.shape.elements() > 0;
}

bool has_floating_input(const OperatorExample& example) {
  return std::any_of(example.inputs.begin(), example.inputs.end(),
                     [](const TensorType& type) { return is_floating(type.dtype); });
}

TEST_CASE("every gradient rule equals central differences") {
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    const OperatorDef& def = registry.get(kind);
    // The rule of cross_entropy is for logits whose maximum, sum and pick belong to them: every
    // problem here ends in it.
    if (def.gradient == nullptr || kind == "cross_entropy") continue;
    for (const OperatorExample& example : def.examples()) {
      CAPTURE(kind);
      if (!has_floating_input(example)) continue;
      const Problem problem = problem_of(kind, example);
      if (has_elements(problem)) CHECK(check_gradients(problem) > 0.01);
    }
  }
}

TEST_CASE("labels that are ignored add nothing to the loss, its count or its gradient") {
  Problem problem;
  const TensorId logits = add_parameter(problem.graph, "logits", 0, {{3, 2}, DType::kF64}, {});
  const TensorId labels = add_input(problem.graph, "labels", 0, {{3}, DType::kI32});
  const LossTensors loss = softmax_cross_entropy(problem.graph, logits, labels, "loss", 0);
  problem.graph.set_loss(loss.loss_sum, loss.token_count);
  problem.values = {{logits, {1, 2, 5, 7, 0, 0}}, {labels, {1, -100, 0}}};
  // Row 0: log(e + e^2) - 2 = log(1 + 1/e); row 2: log 2.
  TensorValues values = problem.values;
  evaluate(problem.graph, values);
  CHECK(values.at(loss.loss_sum)[0] ==
        doctest::Approx(std::log1p(std::exp(-1.0)) + std::log(2.0)).epsilon(1e-14));
  CHECK(values.at(loss.token_count)[0] == 2.0);
  LogicalGraph graph = problem.graph;
  values = problem.values;
  const TensorId gradient = append_gradients(graph)[0].gradient;
  evaluate(graph, values);
  CHECK(values.at(gradient)[2] == 0.0);
  CHECK(values.at(gradient)[3] == 0.0);
  CHECK(check_gradients(problem) > 0.01);
}

TEST_CASE("a weight that is used twice gets the sum of both gradients") {
  // G27 in small: the table embeds and, transposed, makes the logits.
  Problem problem;
  const TensorId ids = add_input(problem.graph, "ids", 0, {{2, 3}, DType::kI32});
  const TensorId table = add_parameter(problem.graph, "table", 0, {{5, 4}, DType::kF64}, {});
  const TensorId h = add_op(problem.graph, "embedding", "h", {ids, table});
  problem.values[ids] = {0, 3, 4, 4, 1, 0};
  problem.values[table] = random_values(CounterRng(1, "table"), 20, -1, 1);
  add_loss(problem, add_op(problem.graph, "matmul", "logits", {h, table}, {{"transpose_w", true}}));
  CHECK(check_gradients(problem) > 0.01);
}

TEST_CASE("a tensor with several readers gets the sum of their gradients") {
  Problem problem;
  const TensorId x = add_parameter(problem.graph, "x", 0, {{3, 4}, DType::kF64}, {});
  const TensorId w = add_parameter(problem.graph, "w", 0, {{4, 4}, DType::kF64}, {});
  const TensorId h = add_op(problem.graph, "matmul", "h", {x, w});
  const TensorId a = add_op(problem.graph, "silu", "a", {h});
  const TensorId b = add_op(problem.graph, "mul", "b", {h, h});
  add_loss(problem,
           add_op(problem.graph, "add", "c", {add_op(problem.graph, "add", "d", {a, b}), h}));
  problem.values[x] = random_values(CounterRng(1, "x"), 12, -1, 1);
  problem.values[w] = random_values(CounterRng(1, "w"), 16, -1, 1);
  CHECK(check_gradients(problem) > 0.01);
}

}  // namespace
}  // namespace sextant
