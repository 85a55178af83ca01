// Inference: products of rows, and the words of small graphs worked out by hand.
#include "sbp/inference.h"

#include "core/base/error.h"
#include "core/operators/movement/sources.h"
#include "sbp/boxing_plans.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace sextant::inference_test {
namespace {

class Graph {
 public:
  TensorId weight(const std::string& name, Shape shape, const char* words) {
    const TensorId id =
        add_parameter(graph, name, 0, {std::move(shape), DType::kF32}, ParameterInfo{});
    constraints.tensors[id] = parse_nd_sbp(words);
    return id;
  }
  TensorId op(std::string kind, std::string name, std::vector<TensorId> inputs,
              Attributes attributes = {}, Phase phase = Phase::kForward, int layer = 0) {
    return graph.output(graph.add({.kind = std::move(kind),
                                   .name = std::move(name),
                                   .attributes = std::move(attributes),
                                   .inputs = std::move(inputs),
                                   .outputs = {},
                                   .phase = phase,
                                   .layer = layer,
                                   .parameter = std::nullopt}));
  }
  WordAssignment infer(const std::vector<Placement>& stages, std::vector<int> layers = {0}) {
    return infer_words(graph, stages, layers, constraints);
  }
  std::string words(const WordAssignment& assignment, const std::string& name) const {
    const OpWords& words = assignment.of(*graph.find_op(name));
    std::string text;
    for (const NdSbp& input : words.inputs) text += to_string(input) + " ";
    return text + "-> " + to_string(words.outputs[0]);
  }

  LogicalGraph graph{builtin_operators()};
  WordConstraints constraints;
};

const Placement kFour = consecutive_placement({{"x", 4}});
const Placement kSquare = consecutive_placement({{"dp", 2}, {"tp", 2}});

std::vector<std::string> texts(const std::vector<OpWords>& products) {
  std::vector<std::string> texts;
  for (const OpWords& words : products) {
    texts.emplace_back();
    for (const NdSbp& input : words.inputs) texts.back() += to_string(input) + " ";
    texts.back() += "-> " + to_string(words.outputs[0]);
  }
  return texts;
}

std::vector<std::string> matmul_products(std::vector<std::int64_t> hierarchy) {
  const OperatorDef& matmul = builtin_operators().get("matmul");
  const std::vector<TensorType> in = {{{8, 8}, DType::kF32}, {{8, 8}, DType::kF32}};
  const std::vector<TensorType> out = {{{8, 8}, DType::kF32}};
  return texts(nd_signatures(matmul, in, out, {}, hierarchy));
}

bool has(const std::vector<std::string>& all, const std::string& one) {
  return std::find(all.begin(), all.end(), one) != all.end();
}

TEST_CASE("a matrix product has exactly the paper's six rows on one axis") {
  std::vector<std::string> rows = matmul_products({2});
  std::sort(rows.begin(), rows.end());
  CHECK(rows == std::vector<std::string>{"B B -> B", "B P(sum) -> P(sum)", "B S(1) -> S(1)",
                                         "P(sum) B -> P(sum)", "S(0) B -> S(0)",
                                         "S(1) S(0) -> P(sum)"});
}

TEST_CASE("two axes have the products of the rows, each nesting order on its own") {
  const std::vector<std::string> products = matmul_products({2, 2});
  // 6 x 6, and a second nesting order where both axes split one dim: the three rows that split,
  // each with itself. (A split of x on dim 0 and on dim 1 are different dims.)
  CHECK(products.size() == 36 + 3);
  CHECK(has(products, "(S(0), B) (B, S(1)) -> (S(0), S(1))"));
  CHECK(has(products, "(S(0), S(1)) (B, S(0)) -> (S(0), P(sum))"));
  CHECK(has(products, "(S(1)^2, S(1)^1) (S(0)^2, S(0)^1) -> (P(sum), P(sum))"));
  CHECK(!has(products, "(P(sum), B) (P(sum), B) -> (P(sum), B)"));
}

TEST_CASE("an axis of one device takes the row without splits only") {
  for (const std::string& product : matmul_products({1, 2})) CHECK(product.find("(B, ") == 0);
  CHECK(matmul_products({1, 2}).size() == 6);
}

TEST_CASE("rows whose groups the parts would cut are left out") {
  const OperatorDef& reshape = builtin_operators().get("reshape");
  const std::vector<TensorType> in = {{{2, 12}, DType::kF32}};
  const std::vector<TensorType> out = {{{2, 6, 2}, DType::kF32}};
  const Attributes attributes = {{"shape", std::vector<std::int64_t>{2, 6, 2}}};
  const auto rows = [&](std::vector<std::int64_t> hierarchy) {
    return texts(nd_signatures(reshape, in, out, attributes, hierarchy));
  };
  CHECK(has(rows({3}), "S(1) -> S(1)"));
  CHECK(!has(rows({4}), "S(1) -> S(1)"));
  // Both axes on the six groups: 4 parts cut them.
  CHECK(!has(rows({2, 2}), "(S(1), S(1)) -> (S(1), S(1))"));
}

// U S(1), V S(0), W B: the first product is partial and the second is linear in it.
TEST_CASE("a partial product stays partial through the next one and is reduced once") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(1)"), v = g.weight("v", {8, 8}, "S(0)"),
                 w = g.weight("w", {8, 8}, "B");
  const TensorId uv = g.op("matmul", "uv", {u, v}, {}, Phase::kWeightGrad);
  g.op("matmul", "uvw", {uv, w}, {}, Phase::kWeightGrad);
  const WordAssignment assignment = g.infer({kFour});
  CHECK(g.words(assignment, "uv") == "S(1) S(0) -> P(sum)");
  CHECK(g.words(assignment, "uvw") == "P(sum) B -> P(sum)");
}

TEST_CASE("within a micro-batch a pending reduction is not passed on for nothing") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(1)"), v = g.weight("v", {8, 8}, "S(0)"),
                 w = g.weight("w", {8, 8}, "B");
  g.op("matmul", "uvw", {g.op("matmul", "uv", {u, v}), w});
  const WordAssignment assignment = g.infer({kFour});
  CHECK(g.words(assignment, "uvw") == "B B -> B");
}

TEST_CASE("partial values that are summed are reduced together") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(1)"), v = g.weight("v", {8, 8}, "S(0)");
  const TensorId a = g.op("matmul", "a", {u, v}), b = g.op("matmul", "b", {u, v});
  const TensorId sum = g.op("add", "sum", {a, b});
  g.op("gelu", "gelu", {sum}, {{"approximate", std::string("none")}});
  const WordAssignment assignment = g.infer({kFour});
  CHECK(g.words(assignment, "sum") == "P(sum) P(sum) -> P(sum)");
  // gelu is not linear: the sum is reduced in front of it.
  CHECK(g.words(assignment, "gelu") == "B -> B");
}

// Both operands of the sum were reduced for others already, so adding them costs nothing.
TEST_CASE("what another reader has boxed is not boxed again") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(1)"), v = g.weight("v", {8, 8}, "S(0)");
  const TensorId a = g.op("matmul", "a", {u, v});
  const TensorId squashed = g.op("gelu", "gelu", {a}, {{"approximate", std::string("none")}});
  g.op("add", "sum", {a, squashed});
  CHECK(g.words(g.infer({kFour}), "sum") == "B B -> B");
}

TEST_CASE("splits are taken over, not invented") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "(S(0), B)"), w = g.weight("w", {8, 8}, "(B, B)");
  g.op("gelu", "gelu", {g.op("matmul", "y", {u, w})}, {{"approximate", std::string("none")}});
  const WordAssignment assignment = g.infer({kSquare});
  // Slicing w over tp would be free and halve the work, but nobody asked for it.
  CHECK(g.words(assignment, "y") == "(S(0), B) (B, B) -> (S(0), B)");
  CHECK(g.words(assignment, "gelu") == "(S(0), B) -> (S(0), B)");
}

// y = exp(x), loss = sum of y: the gradient of the loss, repeated for every element of y and
// scaled, meets y again. Repeating a value that every device has may be split over any dim for
// nothing.
std::string words_of_repeated(const char* x_words) {
  Graph g;
  const TensorId x = g.weight("x", {8, 6}, x_words);
  const TensorId y = g.op("exp", "y", {x});
  const TensorId loss =
      g.op("reduce_sum", "loss", {y}, {{"dims", std::vector<std::int64_t>{0, 1}}});
  const TensorId dy =
      g.op("expand", "dy", {loss},
           {{"shape", std::vector<std::int64_t>{8, 6}}, {"dims", std::vector<std::int64_t>{0, 1}}});
  g.op("mul", "dx", {g.op("scale", "scaled", {dy}, {{"factor", 2.0}}), y});
  return g.words(g.infer({kSquare}), "dy");
}

TEST_CASE("the gradient of a sum is split as what was summed is, and else not at all") {
  CHECK(words_of_repeated("(B, B)") == "(B, B) -> (B, B)");
  CHECK(words_of_repeated("(S(0), B)") == "(B, B) -> (S(0), B)");
  CHECK(words_of_repeated("(B, S(1))") == "(B, B) -> (B, S(1))");
  CHECK(words_of_repeated("(S(1), S(0))") == "(B, B) -> (S(1), S(0))");
}

TEST_CASE("a reader that is given words has a repeated value split so") {
  Graph g;
  const TensorId x = g.weight("x", {8}, "B");
  g.op(
      "exp", "z",
      {g.op("expand", "y", {x},
            {{"shape", std::vector<std::int64_t>{4, 8}}, {"dims", std::vector<std::int64_t>{0}}})});
  CHECK(g.words(g.infer({kFour}), "y") == "B -> B");
  g.constraints.inputs[{*g.graph.find_op("z"), 0}] = parse_nd_sbp("S(0)");
  CHECK(g.words(g.infer({kFour}), "y") == "B -> S(0)");
}

// A reader before has gathered x, so both words cost nothing: work decides, that of the device with
// the most of it.
TEST_CASE("a split of fewer elements than devices spares the fullest device nothing") {
  const auto words = [](std::int64_t rows) {
    Graph g;
    const TensorId x = g.weight("x", {rows, 8}, "S(0)");
    g.op("exp", "whole", {x});
    g.constraints.inputs[{*g.graph.find_op("whole"), 0}] = parse_nd_sbp("B");
    g.op("exp", "y", {x});
    return g.words(g.infer({kFour}), "y");
  };
  CHECK(words(1) == "B -> B");        // one device would do all, three nothing
  CHECK(words(3) == "S(0) -> S(0)");  // one row of three
  CHECK(words(7) == "S(0) -> S(0)");
}

TEST_CASE("an input given words gets them, a tensor given words is made in them") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(0)"), w = g.weight("w", {8, 8}, "S(0)");
  const TensorId y = g.op("matmul", "y", {u, w});
  g.constraints.inputs[{*g.graph.find_op("y"), 1}] = parse_nd_sbp("B");
  CHECK(g.words(g.infer({kFour}), "y") == "S(0) B -> S(0)");
  g.constraints.tensors[y] = parse_nd_sbp("B");
  CHECK(g.words(g.infer({kFour}), "y") == "B B -> B");
}

TEST_CASE("a split becomes a partial value where that is given, and only there") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(0)");
  g.op("scale", "y", {u}, {{"factor", 2.0}});
  CHECK(g.words(g.infer({kFour}), "y") == "S(0) -> S(0)");
  g.constraints.inputs[{*g.graph.find_op("y"), 0}] = parse_nd_sbp("P(sum)");
  CHECK(g.words(g.infer({kFour}), "y") == "P(sum) -> P(sum)");
}

TEST_CASE("a value from another stage is a version like any other") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(0)");
  g.op("gelu", "gelu", {u}, {{"approximate", std::string("none")}}, Phase::kForward, 1);
  const Placement other = consecutive_placement({{"x", 4}}, Rank(4));
  CHECK(g.words(g.infer({kFour, other}, {0, 1}), "gelu") == "S(0) -> S(0)");
}

TEST_CASE("words that fit no mesh or tensor are refused with the operator they were given for") {
  const auto refused = [](const char* words) {
    Graph g;
    const TensorId u = g.weight("u", {8, 8}, "(S(0), B)");
    g.constraints.tensors[g.op("scale", "y", {u}, {{"factor", 2.0}})] = parse_nd_sbp(words);
    try {
      g.infer({kSquare});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  for (const char* words : {"(S(2), B)", "S(0)", "(P(sum), P(max))", "(B, B, B)"}) {
    CAPTURE(words);
    CHECK(refused(words).find("operator 'y' (scale) on [dp=2, tp=2], words ") == 0);
    CHECK(refused(words).find("for 'y' 8x8: ") != std::string::npos);
  }
}

TEST_CASE("words that no row fits are refused with the operator and every candidate") {
  Graph g;
  const TensorId u = g.weight("u", {8, 8}, "S(0)"), w = g.weight("w", {8, 8}, "S(0)");
  const TensorId y = g.op("matmul", "y", {u, w});
  g.constraints.tensors[y] = parse_nd_sbp("P(max)");
  try {
    g.infer({kFour});
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kInfeasible);
    const std::string text = error.what();
    CHECK(text.find("operator 'y' (matmul) on [x=4]") != std::string::npos);
    CHECK(text.find("'u' S(0), 'w' S(0)") != std::string::npos);
    CHECK(text.find("output 'y' given P(max)") != std::string::npos);
    CHECK(text.find("[S(1), S(0) -> P(sum)]") != std::string::npos);
  }
  g.constraints.tensors[y] = parse_nd_sbp("B");
  g.constraints.tensors[u] = parse_nd_sbp("P(sum)");
  CHECK_THROWS_AS(g.infer({kFour}), Error);
}

TEST_CASE("the word of one axis alone may be given, and leaves the other axes to inference") {
  Graph g;
  const TensorId x = g.weight("x", {8, 8, 8}, "(S(0), S(2))");
  g.constraints.inputs_on_axis[{OpId(1), 0}] = {0, Sbp::split(1)};
  g.op("sqrt", "there", {x});
  CHECK(g.words(g.infer({kSquare}), "there") == "(S(1), S(2)) -> (S(1), S(2))");
  // Both axes on one dim: the axis that moves nests inside the one that stays.
  g.constraints.inputs_on_axis[{OpId(1), 0}] = {0, Sbp::split(2)};
  CHECK(g.words(g.infer({kSquare}), "there") == "(S(2)^2, S(2)^1) -> (S(2)^2, S(2)^1)");
}

TEST_CASE("a word that is given for an axis and fits no row is refused with both") {
  Graph g;
  const TensorId x = g.weight("x", {8, 8}, "(B, S(1))");
  g.op("layer_norm", "rows", {x, g.weight("w", {8}, "(B, B)"), g.weight("b", {8}, "(B, B)")},
       {{"epsilon", 1e-5}});
  g.constraints.inputs_on_axis[{OpId(3), 0}] = {1, Sbp::split(1)};
  std::string message;
  try {
    g.infer({kSquare});
  } catch (const Error& error) {
    message = error.what();
  }
  CHECK(message.find("operator 'rows'") != std::string::npos);
  CHECK(message.find("given S(1) on tp") != std::string::npos);
  g.constraints.inputs_on_axis[{OpId(3), 0}] = {2, Sbp::split(1)};
  CHECK_THROWS_WITH_AS(g.infer({kSquare}), doctest::Contains("axis 2 of 2"), Error);
}

TEST_CASE("what inference keeps from graph to graph changes no words") {
  const auto graph_of = [](const char* words, std::int64_t rows) {
    Graph g;
    const TensorId u = g.weight("u", {rows, 8}, words), v = g.weight("v", {8, 8}, words);
    const TensorId w = g.weight("w", {8}, "(B, B)"), b = g.weight("b", {8}, "(B, B)");
    g.op("layer_norm", "norm", {g.op("matmul", "uv", {u, v}), w, b}, {{"epsilon", 1e-5}});
    return g;
  };
  const Placement wide = consecutive_placement({{"dp", 4}, {"tp", 2}});
  BoxingPlans kept(BoxingObjective::kBytes);
  for (int again = 0; again < 2; ++again)
    for (const char* words : {"(S(0), B)", "(B, S(1))", "(S(1), S(0))", "(B, B)"})
      for (const std::int64_t rows : {8, 6})
        for (const Placement& placement : {kSquare, wide}) {
          Graph g = graph_of(words, rows);
          const WordAssignment anew = g.infer({placement});
          const WordAssignment shared = infer_words(g.graph, {placement}, {0}, g.constraints, kept);
          for (std::size_t op = 0; op < g.graph.ops().size(); ++op) {
            CHECK(shared.of(OpId(op)).inputs == anew.of(OpId(op)).inputs);
            CHECK(shared.of(OpId(op)).outputs == anew.of(OpId(op)).outputs);
          }
        }
}

}  // namespace
}  // namespace sextant::inference_test
