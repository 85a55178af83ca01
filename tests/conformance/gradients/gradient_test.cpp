// Every gradient rule against central differences, by itself, and autodiff around some of them.
// Kinds and inputs come from the registry, so a new rule is covered by existing; a kind without a
// rule is excused by what it is or by name in kinds_without_gradient.txt.
#include "compiler/training/autodiff.h"
#include "core/base/counter_rng.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/layers/norm_builders.h"
#include "core/operators/layers/softmax.h"
#include "core/operators/movement/sources.h"
#include "tests/conformance/gradients/gradient_check.h"
#include "tests/conformance/gradients/gradient_rule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sextant::gradient_test {
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

void add_loss(Problem& problem, TensorId logits) {
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

// Kinds or outputs that need no gradient rule, with the reason: "row_max -- ..." for a kind without
// a rule, "attention output 1 -- ..." for an output whose gradient the rule refuses, "softmax alone
// -- ..." for a rule that means something only among other operators.
class Excuses {
 public:
  Excuses() {
    std::ifstream file(SEXTANT_SOURCE_ROOT
                       "/tests/conformance/gradients/kinds_without_gradient.txt");
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      const std::size_t reason = line.find(" -- ");
      REQUIRE_MESSAGE((reason != std::string::npos && reason + 4 < line.size()), line);
      reasons_[line.substr(0, reason)] = line.substr(reason + 4);
    }
  }

  bool has(const std::string& what) {
    if (!reasons_.contains(what)) return false;
    used_.insert(what);
    return true;
  }

  void check_all_used() const {
    for (const auto& [what, reason] : reasons_)
      CHECK_MESSAGE(used_.contains(what), "kinds_without_gradient.txt: no need to excuse ", what);
  }

 private:
  std::map<std::string, std::string> reasons_;
  std::set<std::string> used_;
};

bool is_smooth(const TensorType& type) {
  return type.dtype == DType::kF64 || type.dtype == DType::kF32;
}

// Differences need numbers that move in small steps.
bool has_differences(const SignatureCase& on) {
  const auto all_smooth = [](const std::vector<TensorType>& types) {
    return std::all_of(types.begin(), types.end(), [](const TensorType& type) {
      return !is_floating(type.dtype) || is_smooth(type);
    });
  };
  return all_smooth(on.on.inputs) && all_smooth(on.outputs);
}

// Values for the inputs in the ranges of the example, real numbers where they may be.
std::vector<Piece> smooth_inputs(const SignatureCase& on) {
  std::vector<Piece> inputs;
  for (std::size_t i = 0; i < on.on.inputs.size(); ++i) {
    const TensorType& type = on.on.inputs[i];
    const CounterRng rng(1, on.name + std::to_string(i));
    const bool is_real = is_floating(type.dtype), is_free = on.on.ranges.empty();
    const std::pair<std::int64_t, std::int64_t> range =
        !is_free ? on.on.ranges[i] : std::pair<std::int64_t, std::int64_t>{is_real ? -1 : 0, 1};
    const std::int64_t count = type.shape.elements();
    inputs.push_back(whole(type, is_real
                                     ? random_values(rng, count, static_cast<double>(range.first),
                                                     static_cast<double>(range.second))
                                     : random_integers(rng, count, range.first, range.second)));
  }
  return inputs;
}

// One operator with fixed weights for its outputs: L(inputs) = sum of weights times outputs.
class WeightedOperator {
 public:
  WeightedOperator(const SignatureCase& on, const std::vector<std::size_t>& outputs)
      : on_(on), outputs_(outputs), inputs_(smooth_inputs(on)) {
    for (const std::size_t output : outputs)
      weights_.push_back(random_values(CounterRng(2, on.name + std::to_string(output)),
                                       on.outputs[output].shape.elements(), -1, 1));
  }

  // Values of inputs and weights for the graph of the rule.
  TensorValues values(const GradientRule& rule) const {
    TensorValues values;
    for (std::size_t i = 0; i < inputs_.size(); ++i) values[rule.inputs[i]] = inputs_[i].values;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      values[*rule.arriving[outputs_[i]]] = weights_[i];
    return values;
  }

  struct Sum {
    double value = 0, magnitude = 0;  // of L and of its terms
  };
  Sum loss(std::size_t input, std::size_t element, double change) const {
    std::vector<Piece> inputs = inputs_, outputs;
    inputs[input].values[element] += change;
    for (const TensorType& type : on_.outputs) outputs.push_back(blank(type));
    run_operator(on_.def->kind, on_.on.attributes, inputs, outputs);
    Sum sum;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      for (std::size_t at = 0; at < weights_[i].size(); ++at) {
        const double term = weights_[i][at] * outputs[outputs_[i]].values[at];
        sum.value += term;
        sum.magnitude += std::abs(term);
      }
    return sum;
  }

 private:
  const SignatureCase& on_;
  std::vector<std::size_t> outputs_;
  std::vector<Piece> inputs_;
  std::vector<std::vector<double>> weights_;
};

// The difference of second order has error h^2 / 6 L(3) + 2 u |L| / h. f64 (u = 1.1e-16), h =
// 2^-17: 1e-11 L(3) + 3e-11 |L|; f32 (u = 6e-8), h = 2^-8: 2.5e-6 L(3) + 3e-5 |L|. Near a pole L(3)
// is large: there the one of fourth order with h = 2^-10 (2^-5 in f32) decides, error h^4 / 30
// L(5). It crosses more kinks, so either may agree: a wrong gradient agrees with neither.
bool equals_difference(const WeightedOperator& op, std::size_t input, std::size_t element,
                       double gradient, bool is_f32) {
  const double step = is_f32 ? 0x1p-8 : 0x1p-17, wide = is_f32 ? 0x1p-5 : 0x1p-10;
  const double tolerance = is_f32 ? 2e-3 : 5e-9;
  const auto slope = [&](double h) {
    return (op.loss(input, element, h).value - op.loss(input, element, -h).value) / (2 * h);
  };
  const double scale = std::max({1.0, std::abs(gradient), op.loss(input, element, 0).magnitude});
  const auto agrees = [&](double wanted) {
    return std::abs(gradient - wanted) <= tolerance * scale;
  };
  return agrees(slope(step)) || agrees((4 * slope(wide) - slope(2 * wide)) / 3);
}

void check_rule(const SignatureCase& on, const std::vector<std::size_t>& outputs) {
  const GradientRule rule = apply_gradient_rule(on, outputs);
  const WeightedOperator op(on, outputs);
  TensorValues values = op.values(rule);
  evaluate(rule.graph, values);
  const auto is_f32 = [](const TensorType& type) { return type.dtype == DType::kF32; };
  const bool has_f32 = std::any_of(on.on.inputs.begin(), on.on.inputs.end(), is_f32) ||
                       std::any_of(on.outputs.begin(), on.outputs.end(), is_f32);
  for (std::size_t input = 0; input < rule.inputs.size(); ++input) {
    if (!is_floating(on.on.inputs[input].dtype)) continue;
    const auto count = static_cast<std::size_t>(on.on.inputs[input].shape.elements());
    const std::vector<double> found =
        rule.made[input] ? values.at(*rule.made[input]) : std::vector<double>(count);
    REQUIRE(found.size() == count);
    std::size_t right = 0;
    while (right < count && equals_difference(op, input, right, found[right], has_f32)) ++right;
    CHECK_MESSAGE(right == count, on.name, ": gradient of input ", input, " is wrong at element ",
                  right);
  }
}

// What a kind is excuses it from a rule: it makes no floating numbers, is a source or a sink, keeps
// state, exists in physical graphs alone, or is itself the gradient of another kind.
bool needs_no_rule(const OperatorDef& def, const std::set<std::string>& emitted) {
  if (def.max_inputs == 0 || def.on_host || !def.state_outputs.empty() || def.kind == "box_local")
    return true;
  if (def.kind.find("_grad") != std::string::npos && emitted.contains(def.kind)) return true;
  for (const SignatureCase& on : example_cases(def))
    for (const TensorType& output : on.outputs)
      if (is_floating(output.dtype)) return false;
  return true;
}

// Kinds that gradient rules emit.
std::set<std::string> emitted_kinds() {
  std::set<std::string> emitted;
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds())
    for (const SignatureCase& on : example_cases(registry.get(kind)))
      for (const std::size_t output : differentiable_outputs(on)) {
        const GradientRule rule = apply_gradient_rule(on, {output});
        for (std::size_t i = rule.op.index() + 1; i < rule.graph.ops().size(); ++i)
          emitted.insert(rule.graph.ops()[i].kind);
      }
  return emitted;
}

TEST_CASE("every gradient rule equals central differences, every kind without one is excused") {
  Excuses excuses;
  const std::set<std::string> emitted = emitted_kinds();
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    const OperatorDef& def = registry.get(kind);
    if (def.gradient == nullptr) {
      CHECK_MESSAGE((needs_no_rule(def, emitted) || excuses.has(kind)), kind,
                    " has no gradient rule; give it one, or a line in kinds_without_gradient.txt");
      continue;
    }
    if (excuses.has(kind + " alone")) continue;
    std::size_t checked = 0;
    for (const SignatureCase& on : example_cases(def)) {
      const std::vector<std::size_t> outputs = differentiable_outputs(on);
      for (std::size_t i = 0; i < on.outputs.size(); ++i)
        if (!outputs.empty() && is_floating(on.outputs[i].dtype) &&
            std::find(outputs.begin(), outputs.end(), i) == outputs.end())
          CHECK_MESSAGE(excuses.has(kind + " output " + std::to_string(i)), on.name,
                        ": the rule refuses a gradient at output ", i);
      if (outputs.empty() || !has_differences(on)) continue;
      ++checked;
      for (const std::size_t output : outputs) check_rule(on, {output});
      if (outputs.size() > 1) check_rule(on, outputs);
    }
    CHECK_MESSAGE(checked > 0, kind, " has a gradient rule, but no example with floating inputs");
  }
  excuses.check_all_used();
}

// The suite must be able to fail: the rule of one kind is no rule for another.
TEST_CASE("a wrong gradient agrees with no difference") {
  const SignatureCase on = example_cases(builtin_operators().get("mul"))[0];
  const GradientRule rule = apply_gradient_rule(on, {0});
  const WeightedOperator op(on, {0});
  TensorValues values = op.values(rule);
  evaluate(rule.graph, values);
  const double right = values.at(*rule.made[0])[0];
  CHECK(equals_difference(op, 0, 0, right, false));
  for (const double wrong : {right + 1e-6, -right, 2 * right, 0.0})
    CHECK(!equals_difference(op, 0, 0, wrong, false));
}

constexpr std::array<std::string_view, 3> kSteps = {"sign", "floor", "round"};

// Slope 0 wherever there is one: nothing reaches a parameter through them alone.
bool is_step(std::string_view kind) {
  return std::find(kSteps.begin(), kSteps.end(), kind) != kSteps.end();
}

TEST_CASE("a step adds no slope to a path around it") {
  for (const std::string_view step : kSteps) {
    const std::string kind(step);
    CAPTURE(kind);
    Problem problem;
    const TensorId x = add_parameter(problem.graph, "x", 0, {{3, 4}, DType::kF64}, {});
    problem.values[x] = random_values(CounterRng(1, kind), 12, -3, 3);
    add_loss(problem,
             add_op(problem.graph, "add", "y", {x, add_op(problem.graph, kind, "step", {x})}));
    CHECK(check_gradients(problem) > 0.01);
  }
}

// The operator on 16-bit copies of f32 parameters and a loss of its result, which is the bias of an
// activation, so that its gradient arrives in f32 (core/operators/README.md, invariant 3). Nothing
// when it does not make a floating tensor from floating ones.
std::optional<LogicalGraph> on_16_bit_weights(const SignatureCase& on) {
  if (!with_dtype(on, DType::kBF16)) return std::nullopt;
  Problem problem;
  std::vector<TensorId> inputs;
  for (std::size_t i = 0; i < on.on.inputs.size(); ++i) {
    const std::string name = "in" + std::to_string(i);
    const TensorType& type = on.on.inputs[i];
    if (type.dtype != DType::kF64) {
      inputs.push_back(add_input(problem.graph, name, 0, type));
      continue;
    }
    const TensorId weight = add_parameter(problem.graph, name, 0, {type.shape, DType::kF32}, {});
    inputs.push_back(
        add_op(problem.graph, "cast", name + ".narrow", {weight}, {{"dtype", "bf16"}}));
  }
  const TensorId y = add_op(problem.graph, on.def->kind, "op", inputs, on.on.attributes);
  if (problem.graph.tensor(y).type.dtype != DType::kBF16) return std::nullopt;
  std::vector<std::int64_t> extents = problem.graph.tensor(y).type.shape.extents();
  extents.insert(extents.begin(), 2);
  const TensorId x = add_input(problem.graph, "x", 0, {Shape(std::move(extents)), DType::kBF16});
  add_loss(problem, add_op(problem.graph, "bias_add", "z", {x, y}));
  return problem.graph;
}

TEST_CASE("gradients of 16-bit weights go through every element-wise operator in f32") {
  int kinds = 0;
  const OperatorRegistry& registry = builtin_operators();
  for (const std::string& kind : registry.kinds()) {
    const OperatorDef& def = registry.get(kind);
    if (def.gradient == nullptr || is_step(kind) || kind == "cast") continue;
    for (const SignatureCase& on : example_cases(def)) {
      if (def.work(on.on.inputs, on.outputs, on.on.attributes).kernel != "elementwise") continue;
      std::optional<LogicalGraph> graph = on_16_bit_weights(on);
      if (!graph) continue;
      CAPTURE(on.name);
      const std::size_t num_forward = graph->ops().size();
      const std::vector<ParameterGradient> gradients = append_gradients(*graph);
      CHECK(!gradients.empty());
      for (std::size_t i = num_forward; i < graph->ops().size(); ++i)
        if (graph->ops()[i].kind == "cast" && graph->ops()[i].phase == Phase::kWeightGrad)
          CHECK(graph->tensor(graph->ops()[i].outputs[0]).type.dtype == DType::kF32);
      for (const ParameterGradient& gradient : gradients)
        CHECK(graph->tensor(gradient.gradient).type.dtype == DType::kF32);
      ++kinds;
    }
  }
  CHECK(kinds > 40);
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

TEST_CASE("softmax along any dim has the gradient of the whole, through its maximum and its sum") {
  for (const std::int64_t dim : {0, 1, 2, -1}) {
    Problem problem;
    const TensorId x = add_parameter(problem.graph, "x", 0, {{2, 5, 3}, DType::kF64}, {});
    problem.values[x] = random_values(CounterRng(1, "x"), 30, -2, 2);
    add_loss(problem, softmax(problem.graph, x, dim, "softmax", 0));
    CHECK(check_gradients(problem) > 0.01);
  }
}

// A problem with x and weights of its dim `weights`; `build` makes the result of (x, gamma, beta).
template <typename Build>
Problem norm_problem(const Shape& x_shape, std::size_t weights, const Build& build) {
  Problem problem;
  const Shape columns{x_shape[weights]};
  const TensorId x = add_parameter(problem.graph, "x", 0, {x_shape, DType::kF64}, {});
  const TensorId gamma = add_parameter(problem.graph, "gamma", 0, {columns, DType::kF64}, {});
  const TensorId beta = add_parameter(problem.graph, "beta", 0, {columns, DType::kF64}, {});
  problem.values[x] = random_values(CounterRng(1, "x"), x_shape.elements(), -2, 2);
  problem.values[gamma] = random_values(CounterRng(1, "gamma"), columns.elements(), 0.5, 2);
  problem.values[beta] = random_values(CounterRng(1, "beta"), columns.elements(), -1, 1);
  add_loss(problem, build(problem.graph, x, NormParameters{gamma, beta, 0.25}));
  return problem;
}

TEST_CASE("norms in pieces have the gradients of the whole, through their statistics") {
  const Problem layer = norm_problem({2, 3, 5}, 2, [](auto& graph, TensorId x, const auto& with) {
    return layer_norm_in_pieces(graph, x, with, "norm", 0);
  });
  CHECK(check_gradients(layer) > 0.01);
  for (const Shape& shape : {Shape{3, 2}, Shape{3, 2, 5}, Shape{2, 3, 2, 2}}) {
    const Problem batch = norm_problem(shape, 1, [](auto& graph, TensorId x, const auto& with) {
      return batch_norm(graph, x, with, "norm", 0).y;
    });
    CHECK(check_gradients(batch) > 0.01);
  }
}

TEST_CASE("a root mean square norm in pieces has the gradient of the whole") {
  Problem problem;
  const TensorId x = add_parameter(problem.graph, "x", 0, {{3, 5}, DType::kF64}, {});
  const TensorId gamma = add_parameter(problem.graph, "gamma", 0, {{5}, DType::kF64}, {});
  problem.values[x] = random_values(CounterRng(1, "x"), 15, -2, 2);
  problem.values[gamma] = random_values(CounterRng(1, "gamma"), 5, 0.5, 2);
  add_loss(problem, rms_norm_in_pieces(problem.graph, x, {gamma, {}, 0.25}, "norm", 0));
  CHECK(check_gradients(problem) > 0.01);
}

// One computation, two ways: the values and the gradients of the fused kinds.
TEST_CASE("norms in pieces equal the fused ones, gradients included") {
  const auto results = [](bool in_pieces) {
    Problem problem = norm_problem(
        {4, 3, 7}, 2, [&](LogicalGraph& graph, TensorId x, const NormParameters& with) {
          if (in_pieces) return layer_norm_in_pieces(graph, x, with, "norm", 0);
          return add_op(graph, "layer_norm", "norm", {x, with.gamma, with.beta},
                        {{"epsilon", with.epsilon}});
        });
    std::vector<std::vector<double>> found;
    const std::vector<ParameterGradient> gradients = append_gradients(problem.graph);
    evaluate(problem.graph, problem.values);
    found.push_back(problem.values.at(problem.graph.output(*problem.graph.find_op("norm"))));
    for (const ParameterGradient& gradient : gradients)
      found.push_back(problem.values.at(gradient.gradient));
    return found;
  };
  const auto pieces = results(true), fused = results(false);
  REQUIRE(pieces.size() == 4);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    REQUIRE(pieces[i].size() == fused[i].size());
    // About ten roundings of numbers around 10.
    for (std::size_t at = 0; at < pieces[i].size(); ++at)
      CHECK(std::abs(pieces[i][at] - fused[i][at]) < 1e-13);
  }
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
}  // namespace sextant::gradient_test
