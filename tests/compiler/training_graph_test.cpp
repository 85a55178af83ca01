// Autodiff and optimizer: which operators appear, in which phase and layer. That the gradients are
// right is shown against finite differences (tests/conformance/gradients/gradient_test.cpp).
#include "compiler/training/training_graph.h"

#include "compiler/training/autodiff.h"
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/loss.h"
#include "core/operators/movement/sources.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace sextant::training_graph_test {
namespace {

ParameterInfo normal(bool weight_decay = true) {
  return {.initializer = {Initializer::Kind::kNormal, 0.02},
          .weight_decay = weight_decay,
          .tensor_parallel_dim = std::nullopt};
}

// A forward graph under construction; shapes are f32 unless said.
class Model {
 public:
  LogicalGraph graph{builtin_operators()};

  TensorId parameter(std::string name, int layer, Shape shape, DType dtype = DType::kF32,
                     bool weight_decay = true) {
    return add_parameter(graph, std::move(name), layer, {std::move(shape), dtype},
                         normal(weight_decay));
  }
  TensorId input(std::string name, Shape shape, DType dtype = DType::kF32) {
    return add_input(graph, std::move(name), 0, {std::move(shape), dtype});
  }
  TensorId add(std::string kind, std::string name, int layer, std::vector<TensorId> inputs,
               Attributes attributes = {}) {
    return graph.output(graph.add({.kind = std::move(kind),
                                   .name = std::move(name),
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .phase = Phase::kForward,
                                   .layer = layer,
                                   .parameter = std::nullopt}));
  }
  void set_loss(TensorId logits, int layer) {
    const Shape& shape = graph.tensor(logits).type.shape;
    const TensorId labels = input("labels", {shape[0]}, DType::kI32);
    const LossTensors loss = softmax_cross_entropy(graph, logits, labels, "loss", layer);
    graph.set_loss(loss.loss_sum, loss.token_count);
  }
};

// "layer phase kind name(inputs)", one line per operator that the pass appended.
std::string appended(const LogicalGraph& forward, const LogicalGraph& training) {
  std::string text;
  for (std::size_t i = forward.ops().size(); i < training.ops().size(); ++i) {
    const LogicalOp& op = training.ops()[i];
    text += std::to_string(op.layer) + " " + std::string(to_string(op.phase)) + " " + op.kind +
            " " + op.name + "(";
    for (const TensorId input : op.inputs)
      text += (input == op.inputs[0] ? "" : ", ") + training.tensor(input).name;
    text += ")\n";
  }
  return text;
}

std::string refusal(const LogicalGraph& forward) {
  try {
    make_training_graph(forward);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

TEST_CASE("two layers get gradients last to first, an optimizer each and one metrics sink") {
  Model model;
  const TensorId x = model.input("x", {5, 3});
  const TensorId w1 = model.parameter("w1", 0, {3, 4}), b1 = model.parameter("b1", 0, {4});
  const TensorId h = model.add("bias_add", "h", 0, {model.add("matmul", "xw", 0, {x, w1}), b1});
  const TensorId w2 = model.parameter("w2", 1, {4, 7});
  model.set_loss(model.add("matmul", "logits", 1, {h, w2}), 1);
  // x is an input: no gradient for it. The gradient of h passes through bias_add unchanged.
  CHECK(appended(model.graph, make_training_graph(model.graph)) ==
        "1 input_grad constant loss.grad_seed()\n"
        "1 input_grad cross_entropy_grad loss.grad_input(logits, loss.max, loss.sum_exp, labels, "
        "loss.grad_seed)\n"
        "1 input_grad matmul logits.grad_input(loss.grad_input, w2)\n"
        "1 weight_grad matmul_grad_weight logits.grad_weight(h, loss.grad_input)\n"
        "0 weight_grad reduce_to_bias h.grad_weight(logits.grad_input)\n"
        "0 weight_grad matmul_grad_weight xw.grad_weight(x, logits.grad_input)\n"
        "1 optimizer update_control update_control(loss:1)\n"
        "0 optimizer adamw w1.adamw(w1, xw.grad_weight, update_control)\n"
        "0 optimizer adamw b1.adamw(b1, h.grad_weight, update_control)\n"
        "1 optimizer adamw w2.adamw(w2, logits.grad_weight, update_control)\n"
        "1 data metrics metrics(loss, loss:1)\n");
}

TEST_CASE("a tied weight gets one gradient per use, summed once per step in its own layer") {
  Model model;
  const TensorId ids = model.input("ids", {5}, DType::kI32);
  const TensorId table = model.parameter("table", 0, {7, 4});
  const TensorId h = model.add("embedding", "h", 0, {ids, table});
  model.set_loss(model.add("matmul", "logits", 3, {h, table}, {{"transpose_w", true}}), 3);
  const LogicalGraph training = make_training_graph(model.graph);
  const LogicalOp& head = training.op(*training.find_op("logits.grad_weight"));
  CHECK(head.phase == Phase::kWeightGrad);
  CHECK(head.layer == 3);
  const LogicalOp& look_up = training.op(*training.find_op("h.grad_weight"));
  CHECK(look_up.phase == Phase::kWeightGrad);
  CHECK(look_up.layer == 0);
  const LogicalOp& sum = training.op(*training.find_op("table.grad_sum"));
  CHECK(sum.phase == Phase::kOptimizer);
  CHECK(sum.layer == 0);
  CHECK(sum.inputs == std::vector{head.outputs[0], look_up.outputs[0]});
  CHECK(training.op(*training.find_op("table.adamw")).inputs[1] == sum.outputs[0]);
}

TEST_CASE("a parameter cast to bf16 gets its gradient in f32 without a cast back") {
  Model model;
  const TensorId x = model.input("x", {5, 3}, DType::kBF16);
  const TensorId w = model.parameter("w", 0, {3, 7});
  const TensorId cast = model.add("cast", "w16", 0, {w}, {{"dtype", "bf16"}});
  model.set_loss(model.add("matmul", "logits", 0, {x, cast}), 0);
  const LogicalGraph training = make_training_graph(model.graph);
  const TensorId gradient = training.op(*training.find_op("w.adamw")).inputs[1];
  CHECK(training.tensor(gradient).name == "logits.grad_weight");
  CHECK(training.tensor(gradient).type == TensorType{{3, 7}, DType::kF32});
  CHECK(training.tensor(gradient).role == TensorRole::kGradient);
}

TEST_CASE("activations in bf16 keep bf16 gradients through a loss in f32") {
  Model model;
  const auto weight = [&](const std::string& name, Shape shape) {
    return model.add("cast", name + "16", 0, {model.parameter(name, 0, std::move(shape))},
                     {{"dtype", "bf16"}});
  };
  const TensorId x = model.input("x", {5, 3}, DType::kBF16);
  const TensorId xw = model.add("matmul", "xw", 0, {x, weight("w", {3, 4})});
  const TensorId g = model.add("gelu", "g", 0, {xw}, {{"approximate", "tanh"}});
  const TensorId logits =
      model.add("matmul", "logits", 0, {g, weight("v", {4, 7})}, {{"out_dtype", "f32"}});
  model.set_loss(logits, 0);
  const LogicalGraph training = make_training_graph(model.graph);
  const auto dtype_of = [&](std::string_view op) {
    return training.tensor(training.output(*training.find_op(op))).type.dtype;
  };
  CHECK(dtype_of("loss.grad_input") == DType::kF32);
  CHECK(dtype_of("logits.grad_input") == DType::kBF16);    // the cast of dy
  CHECK(dtype_of("logits.grad_input_2") == DType::kBF16);  // dx
  CHECK(dtype_of("g.grad_input") == DType::kBF16);
  CHECK(dtype_of("xw.grad_weight") == DType::kF32);
}

TEST_CASE("gradients that meet at a residual are summed in the layer that reads it") {
  Model model;
  const TensorId x = model.input("x", {5, 3});
  const TensorId h = model.add("matmul", "h", 0, {x, model.parameter("w", 0, {3, 4})});
  const TensorId y = model.add("matmul", "y", 1, {h, model.parameter("v", 1, {4, 4})});
  model.set_loss(model.add("add", "z", 1, {h, y}), 2);
  const LogicalGraph training = make_training_graph(model.graph);
  const LogicalOp& sum = training.op(*training.find_op("h.grad_sum"));
  // Layer 0 receives one gradient from layer 1, not two.
  CHECK(sum.layer == 1);
  CHECK(sum.phase == Phase::kInputGrad);
  CHECK(training.op(*training.find_op("h.grad_weight")).inputs[1] == sum.outputs[0]);
}

TEST_CASE("what depends on parameters alone is weight_grad, and optimizer after a sum") {
  Model model;
  const TensorId x = model.input("x", {5, 3});
  const TensorId w = model.parameter("w", 0, {3, 3});
  const TensorId doubled = model.add("scale", "doubled", 0, {w}, {{"factor", 2.0}});
  const TensorId h = model.add("matmul", "h", 0, {x, doubled});
  SUBCASE("one use") {
    model.set_loss(h, 0);
    const LogicalGraph training = make_training_graph(model.graph);
    CHECK(training.op(*training.find_op("doubled.grad_weight")).phase == Phase::kWeightGrad);
  }
  SUBCASE("two uses") {
    model.set_loss(model.add("matmul", "y", 0, {h, doubled}), 0);
    const LogicalGraph training = make_training_graph(model.graph);
    CHECK(training.op(*training.find_op("doubled.grad_sum")).phase == Phase::kOptimizer);
    CHECK(training.op(*training.find_op("doubled.grad_weight")).phase == Phase::kOptimizer);
  }
}

TEST_CASE("an optimizer carries its options, its initializer and its exclusion from decay") {
  Model model;
  const TensorId x = model.input("x", {5, 3});
  const TensorId h = model.add("matmul", "h", 0, {x, model.parameter("w", 0, {3, 7})});
  const TensorId b = model.parameter("b", 0, {7}, DType::kF32, /*weight_decay=*/false);
  model.set_loss(model.add("bias_add", "y", 0, {h, b}), 0);
  OptimizerOptions options;
  options.learning_rate = 0.5;
  options.weight_decay = 0.25;
  const LogicalGraph training = make_training_graph(model.graph, options);
  const Attributes& w = training.op(*training.find_op("w.adamw")).attributes;
  CHECK(w.real("learning_rate") == 0.5);
  CHECK(w.real("weight_decay") == 0.25);
  CHECK(w.text("parameter") == "w");
  CHECK(initializer_of(w) == normal().initializer);
  CHECK(training.op(*training.find_op("b.adamw")).attributes.real("weight_decay") == 0.0);
}

TEST_CASE("what cannot be trained is refused by name") {
  Model model;
  const TensorId x = model.input("x", {5, 3});
  const TensorId w = model.parameter("w", 0, {3, 7});
  SUBCASE("no loss") { CHECK(refusal(model.graph) == "the graph has no loss"); }
  SUBCASE("an operator without gradient rule") {
    const TensorId h = model.add("matmul", "h", 0, {x, w});
    const TensorId sums = model.add("reduce_to_bias", "sums", 0, {h});
    const TensorId table =
        model.add("reshape", "table", 0, {sums}, {{"shape", std::vector<std::int64_t>{1, 7}}});
    model.set_loss(table, 0);
    CHECK(refusal(model.graph) ==
          "operator 'sums': reduce_to_bias has no gradient rule, but the loss depends on it");
  }
  SUBCASE("a parameter that the loss does not depend on") {
    model.parameter("unused", 0, {3, 7});
    model.set_loss(model.add("matmul", "h", 0, {x, w}), 0);
    CHECK(refusal(model.graph) ==
          "parameter 'unused' does not reach the loss, so it cannot be trained");
  }
  SUBCASE("a parameter in bf16") {
    model.graph = LogicalGraph(builtin_operators());
    const TensorId y = model.input("y", {5, 3}, DType::kBF16);
    const TensorId v = model.parameter("v", 0, {3, 7}, DType::kBF16);
    model.set_loss(model.add("matmul", "h", 0, {y, v}), 0);
    CHECK(refusal(model.graph) ==
          "parameter 'v' is bf16: adamw updates f32 and f64; keep it in f32 and cast where it is "
          "used");
  }
}

TEST_CASE("a forward graph is left as it was and its operators keep their ids") {
  Model model;
  const TensorId x = model.input("x", {5, 3});
  model.set_loss(model.add("matmul", "h", 0, {x, model.parameter("w", 0, {3, 7})}), 0);
  const std::size_t ops = model.graph.ops().size();
  const LogicalGraph training = make_training_graph(model.graph);
  CHECK(model.graph.ops().size() == ops);
  for (std::size_t i = 0; i < ops; ++i) CHECK(training.ops()[i].name == model.graph.ops()[i].name);
  CHECK(topological_order(training).size() == training.ops().size());
}

TEST_CASE("a name that is taken gets a number") {
  Model model;
  model.input("x", {1});
  model.input("x_2", {1});
  CHECK(unused_name(model.graph, "x") == "x_3");
  CHECK(unused_name(model.graph, "y") == "y");
}

}  // namespace
}  // namespace sextant::training_graph_test
