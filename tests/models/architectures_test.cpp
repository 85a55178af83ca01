// Architectures beside the decoder: shapes, published sizes, layers, and what cannot be.
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "models/any_model.h"
#include "models/class_head.h"
#include "models/conv_net.h"
#include "models/face_net.h"
#include "models/wide_deep.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

namespace sextant::architectures_test {
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

TEST_CASE(
    "images as bytes are normalised at the head of the model, and files without the word stay") {
  const AnyModel bytes = load_any_model("resnet50:input=u8");
  const LogicalGraph graph = build_graph(std::get<ConvNetConfig>(bytes), 2, DType::kBF16);
  CHECK(graph.tensor(graph.output(*graph.find_op("images"))).type ==
        TensorType{{2, 3, 224, 224}, DType::kU8});
  const LogicalOp& head = graph.op(*graph.find_op("images.normalized"));
  CHECK(head.kind == "normalize_images");
  CHECK(head.attributes.text("mean") == "0.485,0.456,0.406");
  CHECK(graph.tensor(head.outputs[0]).type == TensorType{{2, 3, 224, 224}, DType::kBF16});
  CHECK_FALSE(graph.find_op("images.cast").has_value());
  CHECK(to_json_text(any_model_from_json(to_json_text(bytes))) == to_json_text(bytes));
  CHECK(to_json_text(bytes).find("\"input\": \"u8\"") != std::string::npos);
  CHECK(to_json_text(load_any_model("resnet50:input=float")).find("\"input\"") ==
        std::string::npos);
  CHECK_THROWS_AS(load_any_model("resnet50:input=i8"), Error);
  const auto grey = std::get<ConvNetConfig>(
      load_any_model("conv:blocks=1,channels=4,height=8,width=8,image_channels=1,input=u8"));
  const LogicalGraph small = build_graph(grey, 2, DType::kF64);
  CHECK(small.op(*small.find_op("images.normalized")).attributes.text("mean") == "0.5");
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

TEST_CASE("every built-in of any architecture reads back from its own JSON and can be built") {
  const std::vector<std::string> names = all_builtin_names();
  CHECK(names.size() == builtin_model_names().size() + 7);
  for (const std::string& name : names) {
    CAPTURE(name);
    const AnyModel model = load_any_model(name);
    CHECK(name_of(model) == name);
    const AnyModel again = any_model_from_json(to_json_text(model));
    CHECK(to_json_text(again) == to_json_text(model));
    CHECK(again.index() == model.index());
    CHECK(count_parameters(model) > 0);
    CHECK(model_flops_per_sample(model, default_sequence(model)) > 0);
  }
}

TEST_CASE("parameters and FLOPs of the other architectures are those of their sizes") {
  CHECK(count_parameters(load_any_model("resnet18")) == 11'689'512);
  CHECK(count_parameters(load_any_model("resnet50")) == 25'557'032);
  CHECK(count_parameters(load_any_model("resnet101")) == 44'549'160);
  // 4.09 G multiply-adds forward, twice that backward.
  CHECK(model_flops_per_sample(load_any_model("resnet50"), 1) ==
        doctest::Approx(6 * 4.089e9).epsilon(1e-3));
  // Tables 10000 + 100000 * 16; 429 inputs; three layers of 1024; the answer.
  CHECK(count_parameters(load_any_model("wide-deep")) ==
        10'000 + 1'600'000 + (429 + 1) * 1024 + 2 * 1025 * 1024 + 1025);
  CHECK(count_parameters(load_any_model("class-head-1m")) == 513 * 512 + 512'000'000);
}

TEST_CASE("the nets of faces have the published shapes, and as many parameters as their layers") {
  const LogicalGraph r100 = build_graph(face_r100(), 2, DType::kF32);
  CHECK(shape(r100, "stem") == Shape{2, 64, 112, 112});
  CHECK(shape(r100, "layer1.conv1") == Shape{2, 64, 112, 112});
  CHECK(shape(r100, "layer1.conv2") == Shape{2, 64, 56, 56});
  CHECK(shape(r100, "layer49.residual") == Shape{2, 512, 7, 7});
  CHECK(shape(r100, "vector") == Shape{2, 512});
  CHECK(shape(r100, "head") == Shape{2, 85'742});
  CHECK(r100.num_layers() == 51);
  // 65.2 million in the backbone: the published 65.16 M without the weight of the last norm.
  CHECK(count_parameters(r100) == 65'155'648 + 512 * 85'742);
  const LogicalGraph mobile = build_graph(mobile_face_net(), 2, DType::kF32);
  CHECK(shape(mobile, "stem") == Shape{2, 64, 56, 56});
  CHECK(shape(mobile, "layer1.depthwise") == Shape{2, 128, 28, 28});
  CHECK(shape(mobile, "layer1.depthwise.weight") == Shape{128, 1, 3, 3});
  CHECK(shape(mobile, "last") == Shape{2, 512, 7, 7});
  CHECK(shape(mobile, "window") == Shape{2, 512, 1, 1});
  CHECK(shape(mobile, "vector") == Shape{2, 128});
  CHECK_FALSE(mobile.find_op("layer1.residual").has_value());
  CHECK(mobile.find_op("layer2.residual").has_value());
  CHECK(count_parameters(mobile) == 1'003'136 + 128 * 85'742);
  CHECK(unit_of(load_any_model("face-r100")) == SampleUnit::kImages);
}

TEST_CASE("with sampled classes a net of faces has logits of these alone") {
  const AnyModel model = load_any_model("face-r100:classes=80000,sampled=8000");
  const LogicalGraph graph = build_graph(std::get<FaceNetConfig>(model), 2, DType::kF16);
  CHECK(shape(graph, "head.weight") == Shape{80'000, 512});
  CHECK(shape(graph, "head.rows") == Shape{8'000, 512});
  CHECK(shape(graph, "head") == Shape{2, 8'000});
  CHECK(graph.op(*graph.find_op("head.weight")).parameter->tensor_parallel_dim == 0);
  const auto refused = [](const char* word, const char* why) {
    CHECK_THROWS_WITH_AS(load_any_model(word), doctest::Contains(why), Error);
  };
  refused("face-r100:sampled=8000", "8 buckets do not divide 85742 classes");
  refused("face-r100:classes=80000,sampled=88000", "88000 of 80000 classes are taken");
  refused("face-r100:strides=2x2", "4 groups of blocks with 4 numbers of channels, 2 strides");
  refused("face-r100:height=96", "images of 96 x 112");
}

TEST_CASE("one word gives any architecture, or changes a built-in") {
  const AnyModel model = load_any_model("conv:blocks=1x2,channels=4x8,height=9,width=7,classes=5");
  const auto& conv = std::get<ConvNetConfig>(model);
  CHECK(conv.blocks == std::vector<std::int64_t>{1, 2});
  CHECK(conv.channels == std::vector<std::int64_t>{4, 8});
  CHECK(conv.height == 9);
  CHECK_FALSE(conv.bottleneck);
  CHECK(std::get<ConvNetConfig>(load_any_model("resnet50:classes=10")).bottleneck);
  CHECK(std::get<WideDeepConfig>(load_any_model("wide_deep:hidden=8x4,dense=3")).hidden ==
        std::vector<std::int64_t>{8, 4});
  CHECK(std::get<ClassHeadConfig>(load_any_model("class_head:classes=9,label_smoothing=0.1"))
            .label_smoothing == 0.1);
  const auto refusal = [](const char* word) {
    try {
      load_any_model(word);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  CHECK(refusal("conv:block=2") == "'conv:block=2': unknown key 'block', did you mean 'blocks'?");
  CHECK(refusal("conv:blocks=2xx3") == "'conv:blocks=2xx3': blocks= is not a number of 0 or more");
  CHECK(refusal("conv:classes=5,classes=6").find("'classes' appears twice") != std::string::npos);
  for (const char* word : {"conv:classes=5,", "conv:classes=", "resnet50:,classes=5"})
    CHECK(refusal(word).find("is not of the form key=value") != std::string::npos);
  CHECK(refusal("conv:") == "'conv:': nothing behind the colon");
  CHECK(refusal("conv:blocks=2x2") ==
        "conv:blocks=2x2: 2 groups of blocks with 4 numbers of channels");
  CHECK(refusal("resnet51") ==
        "'resnet51' is no file and no built-in model, did you mean 'resnet50'?");
}

TEST_CASE("a graph in a file is a model with its own types, batch and loss") {
  GraphDocument document;
  document.name = "mine";
  document.graph = build_graph(
      ClassHeadConfig{.name = "c", .features = 3, .hidden = {5}, .classes = 7}, 4, DType::kF64);
  const auto file = std::filesystem::temp_directory_path() / "sextant_graph_model_test.json";
  std::ofstream(file) << to_json_text(document);
  const AnyModel model = load_any_model(file.string());
  std::filesystem::remove(file);
  CHECK(name_of(model) == "mine");
  CHECK(own_dtype(model) == DType::kF64);
  CHECK(count_parameters(model) == 3 * 5 + 5 + 5 * 7);
  // 2 FLOPs per weight of a matrix forward, 4 backward.
  CHECK(model_flops_per_sample(model, 1) == 6.0 * (3 * 5 + 5 * 7));
  CHECK(build_graph(model, 4, 1, DType::kF64).ops().size() == document.graph.ops().size());
  CHECK_THROWS_WITH_AS(build_graph(model, 4, 1, DType::kF32),
                       "mine: the graph computes in f64, not f32", Error);
  document.graph = LogicalGraph(builtin_operators());
  CHECK_THROWS_WITH_AS(build_graph(AnyModel(document), 4, 1, DType::kF32),
                       doctest::Contains("has no loss"), Error);
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
}  // namespace sextant::architectures_test
