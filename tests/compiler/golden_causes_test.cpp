// Who causes a boxing, what it costs, and the picture of a graph: on two products between which
// words and placements change.
#include "compiler/words/boxing_causes.h"
#include "compiler/words/staged_graphviz.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/sources.h"
#include "tests/compiler/golden_graphs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::golden_causes_test {
namespace {

// One byte takes a picosecond, whoever sends it.
class ByteNetwork final : public NetworkModel {
 public:
  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const Time latest = *std::max_element(arrivals.begin(), arrivals.end());
    std::fill(done.begin(), done.end(), latest + duration(cost));
  }
  Duration duration(const CollectiveCost& cost) const override {
    return Duration(cost.global_bytes.value);
  }
};

const NdSbp kB = {Sbp::broadcast()}, kRows = {Sbp::split(0)}, kColumns = {Sbp::split(1)};

TensorId matmul(LogicalGraph& graph, const std::string& name, int layer, TensorId x, Shape shape) {
  const TensorId w =
      add_parameter(graph, name + ".w", layer, {std::move(shape), DType::kF32}, ParameterInfo());
  return graph.output(graph.add({.kind = "matmul",
                                 .name = name,
                                 .attributes = {},
                                 .inputs = {x, w},
                                 .outputs = {},
                                 .layer = layer,
                                 .parameter = std::nullopt}));
}

// a = x A in rows on d1, d2; b = a B and c = a C want all of a on d3, d4.
GlobalProgram two_readers() {
  LogicalGraph graph(builtin_operators());
  const TensorId x = add_input(graph, "x", 0, {{256, 512}, DType::kF32});
  const TensorId a = matmul(graph, "a", 0, x, {512, 512});
  matmul(graph, "b", 1, a, {512, 1000});
  matmul(graph, "c", 1, a, {512, 1200});
  return {.graph = std::move(graph),
          .placements = {devices(0, 2), devices(2, 2)},
          .stage_of_layer = {0, 1},
          .tensors = {{"x", kRows}, {"a.w", kB}, {"b.w", kColumns}, {"c.w", kColumns}},
          .inputs = {{{"b", 0}, kB}, {{"c", 0}, kB}}};
}

TEST_CASE("every boxing of a chain names the operator before it and all readers behind it") {
  const StagedGraph graph = stage(two_readers());
  const std::vector<BoxingCause> causes = boxing_causes(graph);
  const auto op = [&](StagedOpId index) { return graph.ops[index]; };
  // A transfer (one cause for its two halves) and an all-gather, shared by both readers.
  REQUIRE(causes.size() == 2);
  CHECK(op(causes[0].boxing).kind == "transfer");
  CHECK(op(causes[0].boxing).communication->side == Side::kReceive);
  CHECK(op(causes[1].boxing).kind == "all_gather");
  for (const BoxingCause& cause : causes) {
    CHECK(op(cause.producer).name == "a");
    CHECK(cause.made == kRows);
    REQUIRE(cause.readers.size() == 2);
    CHECK(op(cause.readers[0].op).name == "b");
    CHECK(op(cause.readers[1].op).name == "c");
    for (const BoxingCause::Reader& reader : cause.readers) {
      CHECK(reader.input == 0);
      CHECK(reader.wanted == kB);
    }
  }
}

TEST_CASE("a boxing costs what its largest group costs, and tells the tensor from what moves") {
  const StagedGraph graph = stage(two_readers());
  const std::vector<BoxingCause> causes = boxing_causes(graph);
  REQUIRE(causes.size() == 2);
  const ByteNetwork network;
  const auto cost = [&](std::size_t cause) {
    return cost_of(graph, graph.ops[causes[cause].boxing], network);
  };
  constexpr std::int64_t kWhole = 524'288;
  // a is 256 x 512 f32 = 524,288 bytes. Two pairs of devices hand over a half each.
  CHECK(cost(0).members == 2);
  CHECK(cost(0).tensor == Bytes(kWhole));
  CHECK(cost(0).moved == Bytes(kWhole));
  CHECK(cost(0).each == Duration(kWhole / 2));
  // Each of two gets the other half: (n - 1) X = 524,288 bytes.
  CHECK(cost(1).members == 2);
  CHECK(cost(1).tensor == Bytes(kWhole));
  CHECK(cost(1).moved == Bytes(kWhole));
  CHECK(cost(1).each == Duration(kWhole));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_CASE("the picture of a graph has a cluster per stage, every operator and marked boxing") {
  const StagedGraph graph = stage(two_readers());
  const std::string dot = to_graphviz(graph);
  CHECK(dot.starts_with("digraph staged {"));
  CHECK(dot.ends_with("}\n"));
  CHECK(count_of(dot, "subgraph cluster_") == 2);
  std::size_t reads = 0;
  for (const StagedOp& op : graph.ops) reads += op.in.size();
  CHECK(count_of(dot, " [label=") == graph.ops.size() + reads);
  // Two halves and the all-gather.
  CHECK(count_of(dot, "fillcolor=orange") == 3);
  CHECK(count_of(dot, "style=bold") == 1);
  CHECK(count_of(dot, "{") == count_of(dot, "}"));
  check_golden("two_readers", dot);
}

}  // namespace
}  // namespace sextant::golden_causes_test
