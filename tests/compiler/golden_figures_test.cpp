// The physical graphs that the paper draws, made from words: the communications of each figure by
// kind and count, and the whole graph as text in golden/.
#include "compiler/training/training_graph.h"
#include "compiler/words/stage.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/softmax.h"
#include "core/operators/movement/sources.h"
#include "tests/compiler/golden_graphs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sextant::golden_figures_test {
namespace {

using Lines = std::vector<std::string>;
const NdSbp kB = {Sbp::broadcast()}, kRows = {Sbp::split(0)}, kColumns = {Sbp::split(1)};

// Operators of a figure by the names it uses.
class Figure {
 public:
  LogicalGraph graph{builtin_operators()};

  TensorId input(const std::string& name, int layer, Shape shape) {
    return add_input(graph, name, layer, {std::move(shape), DType::kF32});
  }
  TensorId weight(const std::string& name, int layer, Shape shape) {
    ParameterInfo info;
    info.initializer = {Initializer::Kind::kNormal, 0.02};
    return add_parameter(graph, name, layer, {std::move(shape), DType::kF32}, info);
  }
  TensorId op(const std::string& kind, const std::string& name, int layer,
              std::vector<TensorId> inputs, Attributes attributes = {}) {
    return graph.output(graph.add({.kind = kind,
                                   .name = name,
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .layer = layer,
                                   .parameter = std::nullopt}));
  }
  TensorId matmul(const std::string& name, int layer, TensorId x, TensorId w) {
    return op("matmul", name, layer, {x, w});
  }
  // Half the sum of squares: its gradient is the result itself.
  void set_loss(TensorId y, int layer, std::int64_t samples) {
    const TensorId squares = op("square", "squares", layer, {y});
    const TensorId sum =
        op("reduce_sum", "loss", layer, {squares}, {{"dims", std::vector<std::int64_t>{0, 1}}});
    const TensorId count = op("constant", "count", layer, {},
                              {{"shape", std::vector<std::int64_t>{}},
                               {"dtype", std::string("f32")},
                               {"value", static_cast<double>(samples)}});
    graph.set_loss(sum, count);
  }
};

std::string joined(const Lines& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::size_t count_of(const Lines& lines, const std::string& kind) {
  return static_cast<std::size_t>(std::count_if(
      lines.begin(), lines.end(), [&](const auto& line) { return line.starts_with(kind + " "); }));
}

Lines kinds(const StagedGraph& graph) {
  Lines kinds;
  for (const StagedOp& op : graph.ops) kinds.push_back(op.kind);
  return kinds;
}

NdSbp words_of(const StagedGraph& graph, const std::string& reader, std::size_t input) {
  for (const StagedOp& op : graph.ops)
    if (op.name == reader) return graph.tensors[op.in[input]].words;
  return {};
}

// f1, f2 data parallel on d1, d2; f3 model parallel on d3, d4. What crosses has words for both
// directions, as `to_global` has: the result whole, its gradient in rows.
GlobalProgram figure_1() {
  Figure figure;
  TensorId y = figure.input("x", 0, {256, 512});
  for (int i = 1; i <= 3; ++i) {
    const std::string number = std::to_string(i);
    y = figure.matmul("f" + number, i, y, figure.weight("w" + number, i, {512, 512}));
  }
  figure.set_loss(y, 3, 256);
  return {.graph = make_training_graph(figure.graph),
          .placements = {devices(0, 2), devices(2, 2)},
          .stage_of_layer = {0, 0, 0, 1},
          .tensors = {{"x", kRows},
                      {"w1", kB},
                      {"w2", kB},
                      {"w3", kColumns},
                      {"loss.grad_input", kColumns}},
          .inputs = {{{"f3", 0}, kB}, {{"f2.grad_input", 0}, kRows}}};
}

TEST_CASE("Fig. 1: an all-gather forward, a reduce-scatter backward, two gradient all-reduces") {
  const StagedGraph graph = stage(figure_1());
  const Lines found = communication_lines(graph);
  CHECK(joined(found) == joined({
                             "send f2 [communication, stage 0]",
                             "receive f2 as S(0) on stage 1 [communication, stage 1]",
                             "all_gather f2 as B on stage 1 [forward, stage 1]",
                             "reduce_scatter f3.grad_input as S(0) [input_grad, stage 1]",
                             "send f3.grad_input as S(0) [communication, stage 1]",
                             "receive f3.grad_input as S(0) on stage 0 [communication, stage 0]",
                             "all_reduce f1.grad_weight as B [optimizer, stage 0]",
                             // How many samples there are, which the updates divide by.
                             "send update_control [communication, stage 1]",
                             "receive update_control as B on stage 0 [communication, stage 0]",
                             "all_reduce f2.grad_weight as B [optimizer, stage 0]",
                             // What the user sees.
                             "all_reduce loss as B [optimizer, stage 1]",
                         }));
  CHECK(count_of(found, "all_gather") == 1);
  CHECK(count_of(found, "reduce_scatter") == 1);
  CHECK(words_of(graph, "f3", 0) == kB);
  CHECK(words_of(graph, "f3", 1) == kColumns);
  check_golden("figure_1", to_text(graph));
}

// Two products on two placements: data parallel, then model parallel, which wants all rows.
GlobalProgram figure_5() {
  Figure figure;
  const TensorId x = figure.input("a0", 0, {256, 512});
  const TensorId y = figure.matmul("y0", 0, x, figure.weight("b0", 0, {512, 512}));
  figure.matmul("y2", 1, y, figure.weight("b1", 1, {512, 512}));
  return {.graph = std::move(figure.graph),
          .placements = {devices(0, 2), devices(2, 2)},
          .stage_of_layer = {0, 1},
          .tensors = {{"a0", kRows}, {"b0", kB}, {"b1", kColumns}},
          .inputs = {{{"y2", 0}, kB}}};
}

TEST_CASE("Fig. 5: between two placements, split rows become whole by an all-gather") {
  const StagedGraph graph = stage(figure_5());
  CHECK(joined(communication_lines(graph)) ==
        joined({
            "send y0 [communication, stage 0]",
            "receive y0 as S(0) on stage 1 [communication, stage 1]",
            "all_gather y0 as B on stage 1 [forward, stage 1]",
        }));
  CHECK(words_of(graph, "y2", 0) == kB);
  check_golden("figure_5", to_text(graph));
}

// Softmax of logits whose classes are split over two devices.
GlobalProgram figure_11b() {
  Figure figure;
  const TensorId x = figure.input("features", 0, {256, 512});
  const TensorId logits = figure.matmul("logits", 0, x, figure.weight("w", 0, {512, 1000}));
  softmax(figure.graph, logits, -1, "softmax", 0);
  return {.graph = std::move(figure.graph),
          .placements = {devices(0, 2)},
          .stage_of_layer = {0},
          .tensors = {{"features", kB}, {"w", kColumns}},
          .inputs = {}};
}

TEST_CASE("Fig. 11b: softmax of split classes reduces on each device, then over the devices") {
  const StagedGraph graph = stage(figure_11b());
  CHECK(joined(communication_lines(graph)) ==
        joined({
            "all_reduce softmax.max as B [forward, stage 0]",
            "all_reduce softmax.sum_exp as B [forward, stage 0]",
        }));
  CHECK(joined(kinds(graph)) == joined({"input", "matmul", "reduce_max", "all_reduce",
                                        "reduce_sum_exp", "all_reduce", "softmax", "parameter"}));
  // A row per device meets the other's: 256 numbers move, not 1,000 classes of them.
  for (const StagedOp& op : graph.ops)
    if (op.communication) CHECK(graph.tensors[op.in[0]].global.shape == Shape({256}));
  check_golden("figure_11b", to_text(graph));
}

// A weight kept in f32, cast to f16 where it is used, data parallel on two devices.
GlobalProgram figure_14() {
  Figure figure;
  const TensorId x = figure.input("x", 0, {256, 512});
  const TensorId half = figure.op("cast", "x.f16", 0, {x}, {{"dtype", std::string("f16")}});
  const TensorId w = figure.op("cast", "w.f16", 0, {figure.weight("w", 0, {512, 512})},
                               {{"dtype", std::string("f16")}});
  figure.set_loss(figure.op("cast", "y.f32", 0, {figure.matmul("y", 0, half, w)},
                            {{"dtype", std::string("f32")}}),
                  0, 256);
  OptimizerOptions optimizer;
  optimizer.loss_scale.kind = LossScale::Kind::kNone;  // as in the figure
  return {.graph = make_training_graph(figure.graph, optimizer),
          .placements = {devices(0, 2)},
          .stage_of_layer = {0},
          .tensors = {{"x", kRows}, {"w", kRows}},
          .inputs = {{{"w.f16", 0}, kRows}, {{"y", 1}, kB}, {{"w.adamw", 1}, kRows}}};
}

TEST_CASE("Fig. 14: ZeRO on two devices gathers the f16 copy and scatters the gradient") {
  const StagedGraph graph = stage(figure_14());
  CHECK(joined(communication_lines(graph)) ==
        joined({
            "all_gather w.f16 as B [forward, stage 0]",
            "reduce_scatter y.grad_weight as S(0) [optimizer, stage 0]",
            "all_reduce loss as B [optimizer, stage 0]",
        }));
  // Both moments and the f32 weight are halves.
  for (const StagedTensor& tensor : graph.tensors)
    if (tensor.is_state && tensor.global.shape.rank() > 0) CHECK(tensor.words == kRows);
  check_golden("figure_14", to_text(graph));
}

}  // namespace
}  // namespace sextant::golden_figures_test
