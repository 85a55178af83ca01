// Architectures beside the decoder: shapes, published sizes, layers, and what cannot be.
#include "core/error.h"
#include "core/operator.h"
#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/wide_deep.h"

#include <doctest/doctest.h>

namespace sextant {
namespace {

const Shape& shape(const LogicalGraph& graph, std::string_view name) {
  const auto op = graph.find_op(name);
  REQUIRE_MESSAGE(op.has_value(), name);
  return graph.tensor(graph.output(*op)).type.shape;
}

int layer(const LogicalGraph& graph, std::string_view name) {
  return graph.op(*graph.find_op(name)).layer;
}

// Elements of the parameters whose names end so.
std::int64_t elements(const LogicalGraph& graph, std::string_view ending) {
  std::int64_t count = 0;
  for (const LogicalOp& op : graph.ops())
    if (op.kind == "parameter" && op.name.ends_with(ending))
      count += graph.tensor(op.outputs[0]).type.shape.elements();
  return count;
}

ConvNetConfig resnet50() {
  return {.name = "resnet50",
          .bottleneck = true,
          .blocks = {3, 4, 6, 3},
          .channels = {64, 128, 256, 512}};
}

TEST_CASE("resnet50 has the published shapes and parameters") {
  const LogicalGraph graph = build_graph(resnet50(), 2, DType::kF32);
  CHECK(shape(graph, "stem") == Shape{2, 64, 112, 112});
  CHECK(shape(graph, "stem.pool") == Shape{2, 64, 56, 56});
  CHECK(shape(graph, "layer3.relu") == Shape{2, 256, 56, 56});
  CHECK(shape(graph, "layer4.relu") == Shape{2, 512, 28, 28});
  CHECK(shape(graph, "layer16.relu") == Shape{2, 2048, 7, 7});
  CHECK(shape(graph, "head.pool") == Shape{2, 2048});
  CHECK(elements(graph, ".weight") + elements(graph, ".bias") == 25'557'032);
  CHECK(elements(graph, ".running_mean") == 26'560);
  CHECK(elements(graph, ".running_variance") == 26'560);
  CHECK(graph.num_layers() == 18);
  CHECK(layer(graph, "images") == 0);
  CHECK(layer(graph, "labels") == 17);
  // Only the first block of a group changes shape.
  CHECK(graph.find_op("layer1.shortcut").has_value());
  CHECK_FALSE(graph.find_op("layer2.shortcut").has_value());
}

TEST_CASE("statistics are state of their layer that nothing else reads") {
  const LogicalGraph graph = build_graph(resnet50(), 2, DType::kBF16);
  const OpId kept = *graph.find_op("layer5.conv1.norm.running_mean");
  CHECK(graph.tensor(graph.output(kept)).type == TensorType{{128}, DType::kF32});
  REQUIRE(graph.uses(graph.output(kept)).size() == 1);
  const LogicalOp& update = graph.op(graph.uses(graph.output(kept))[0].op);
  CHECK(update.kind == "running_statistic");
  CHECK(update.phase == Phase::kOptimizer);
  CHECK(update.layer == 5);
  CHECK(graph.op(kept).parameter->tensor_parallel_dim == 0);
}

TEST_CASE("wide and deep: tables are cut by rows, layers by columns and rows in turn") {
  const LogicalGraph graph =
      build_graph(WideDeepConfig{.name = "w", .hidden = {7, 5, 3}}, 3, DType::kF32);
  const auto cut = [&](const char* name) {
    return graph.op(*graph.find_op(name)).parameter->tensor_parallel_dim;
  };
  CHECK(shape(graph, "features") == Shape{3, 26 * 16 + 13});
  CHECK(shape(graph, "logits") == Shape{3, 2});
  CHECK(cut("deep.weight") == 0);
  CHECK(cut("wide.weight") == 0);
  CHECK(cut("layer1.linear.weight") == 1);
  CHECK(cut("layer2.linear.weight") == 0);
  CHECK(cut("layer3.linear.weight") == 1);
  CHECK(cut("answer.weight") == 0);
  CHECK(graph.num_layers() == 5);
}

TEST_CASE("the head of a classifier is cut by classes, its features are not") {
  const LogicalGraph graph =
      build_graph(ClassHeadConfig{.name = "c", .classes = 1001}, 3, DType::kF32);
  CHECK(shape(graph, "head") == Shape{3, 1001});
  CHECK(graph.op(*graph.find_op("head.weight")).parameter->tensor_parallel_dim == 1);
  CHECK_FALSE(graph.op(*graph.find_op("layer1.linear.weight")).parameter->tensor_parallel_dim);
}

TEST_CASE("impossible architectures are refused by the value") {
  ConvNetConfig conv = resnet50();
  conv.channels.pop_back();
  CHECK_THROWS_WITH_AS(validate(conv), "resnet50: 4 groups of blocks with 3 numbers of channels",
                       Error);
  conv = resnet50();
  conv.classes = 0;
  CHECK_THROWS_WITH_AS(validate(conv), doctest::Contains("classes is 0, wanted 1 to"), Error);
  CHECK_THROWS_AS(build_graph(resnet50(), 0, DType::kF32), Error);
  CHECK_THROWS_AS(build_graph(resnet50(), 1, DType::kI32), Error);
  CHECK_THROWS_WITH_AS(validate(WideDeepConfig{.name = "w", .hidden = {}}), "w: no hidden layers",
                       Error);
  CHECK_THROWS_WITH_AS(validate(ClassHeadConfig{.name = "c", .label_smoothing = 1}),
                       doctest::Contains("label smoothing is 1"), Error);
}

}  // namespace
}  // namespace sextant
