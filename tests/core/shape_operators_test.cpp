// Operators that move elements, look them up or multiply per batch element: their rows, shapes and
// refusals as stated by hand, and the builders that count from the end.
#include "core/base/error.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/operators/movement/rearrange.h"
#include "core/operators/movement/sources.h"

#include <doctest/doctest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace sextant::shape_operators_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Texts = std::set<std::string>;

TensorType f32(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kF32}; }
TensorType bf16(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kBF16}; }
TensorType i64(Shape shape) { return {.shape = std::move(shape), .dtype = DType::kI64}; }

std::vector<TensorType> infer(std::string_view kind, const std::vector<TensorType>& inputs,
                              const Attributes& attributes = {}) {
  return builtin_operators().get(kind).infer(inputs, attributes);
}

// Rows besides all-B, as "S(0) B -> S(0)".
Texts rows(std::string_view kind, const std::vector<TensorType>& inputs,
           const Attributes& attributes = {}) {
  Texts texts;
  for (const SbpSignature& row : builtin_operators().get(kind).signatures(
           inputs, infer(kind, inputs, attributes), attributes)) {
    std::string text;
    for (const Sbp& word : row.inputs) text += to_string(word) + " ";
    text += "->";
    for (const Sbp& word : row.outputs) text += " " + to_string(word);
    if (text.find_first_of("SP") != std::string::npos) texts.insert(text);
  }
  return texts;
}

Texts with_partials(Texts texts) {
  texts.insert({"P(sum) -> P(sum)", "P(max) -> P(max)", "P(min) -> P(min)"});
  return texts;
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

std::string refusal(std::string_view kind, const std::vector<TensorType>& inputs,
                    const Attributes& attributes = {}) {
  return refusal([&] { infer(kind, inputs, attributes); });
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

Attributes along(std::int64_t dim) { return {{"dim", dim}}; }
Attributes parts(std::int64_t dim, Integers extents) {
  return {{"dim", dim}, {"extents", std::move(extents)}};
}
Attributes cut(std::int64_t dim, std::int64_t start, std::int64_t stop) {
  return {{"dim", dim}, {"start", start}, {"stop", stop}};
}

TEST_CASE("batch_matmul has the six rows of matmul and those of its leading dims") {
  const Texts both{"S(0) S(0) -> S(0)", "P(sum) B -> P(sum)", "B P(sum) -> P(sum)"};
  const auto table = [&](Texts of_matrices) {
    of_matrices.insert(both.begin(), both.end());
    return of_matrices;
  };
  const Attributes x = {{"transpose_x", true}}, w = {{"transpose_w", true}};
  CHECK(rows("batch_matmul", {f32({5, 2, 3}), f32({5, 3, 4})}) ==
        table({"S(1) B -> S(1)", "B S(2) -> S(2)", "S(2) S(1) -> P(sum)"}));
  CHECK(rows("batch_matmul", {f32({5, 3, 2}), f32({5, 3, 4})}, x) ==
        table({"S(2) B -> S(1)", "B S(2) -> S(2)", "S(1) S(1) -> P(sum)"}));
  CHECK(rows("batch_matmul", {f32({5, 2, 3}), f32({5, 4, 3})}, w) ==
        table({"S(1) B -> S(1)", "B S(1) -> S(2)", "S(2) S(2) -> P(sum)"}));
}

TEST_CASE("a cut dim that is split gives partial sums, every other split stays") {
  const Texts expected = with_partials({"S(0) -> P(sum)", "S(1) -> S(1)"});
  CHECK(rows("slice", {f32({5, 3})}, cut(0, 1, 3)) == expected);
  CHECK(rows("pad", {f32({5, 3})},
             {{"dim", std::int64_t{0}}, {"before", std::int64_t{1}}, {"after", std::int64_t{0}}}) ==
        expected);
  CHECK(rows("split", {f32({5, 3})}, parts(0, {2, 3})) ==
        Texts{"S(0) -> P(sum) P(sum)", "S(1) -> S(1) S(1)", "P(sum) -> P(sum) P(sum)",
              "P(max) -> P(max) P(max)", "P(min) -> P(min) P(min)"});
}

TEST_CASE("what cuts nothing off keeps every split") {
  const Texts expected = with_partials({"S(0) -> S(0)", "S(1) -> S(1)"});
  CHECK(rows("slice", {f32({5, 3})}, cut(0, 0, 5)) == expected);
  CHECK(rows("concat", {f32({5, 3})}, parts(0, {5})) == expected);
  CHECK(rows("concat", {f32({5}), f32({0})}, parts(0, {5, 0})).count("S(0) S(0) -> S(0)") == 1);
}

TEST_CASE("concat joins parts that are all split, all whole or all partial") {
  CHECK(rows("concat", {f32({2, 3}), f32({5, 3})}, parts(0, {2, 5})) ==
        Texts{"S(0) S(0) -> P(sum)", "S(1) S(1) -> S(1)", "P(sum) P(sum) -> P(sum)",
              "P(max) P(max) -> P(max)", "P(min) P(min) -> P(min)"});
}

TEST_CASE("gather renumbers what stands behind the dim it looks up") {
  // [2, 5, 3] by [7, 4] along dim 1: [2, 7, 4, 3].
  CHECK(rows("gather", {f32({2, 5, 3}), i64({7, 4})}, along(1)) ==
        Texts{"S(0) B -> S(0)", "S(2) B -> S(3)", "B S(0) -> S(1)", "B S(1) -> S(2)",
              "S(1) B -> P(sum)", "P(sum) B -> P(sum)", "P(max) B -> P(max)",
              "P(min) B -> P(min)"});
  // One index: the dim is gone.
  CHECK(rows("gather", {f32({5, 3}), i64({})}, along(0)).count("S(1) B -> S(0)") == 1);
}

TEST_CASE("scatter_add has the rows of gather backwards") {
  CHECK(rows("scatter_add", {f32({2, 7, 4, 3}), i64({7, 4})},
             {{"dim", std::int64_t{1}}, {"extent", std::int64_t{5}}}) ==
        Texts{"S(0) B -> S(0)", "S(3) B -> S(2)", "S(1) S(0) -> P(sum)", "S(2) S(1) -> P(sum)",
              "B B -> S(1)", "P(sum) B -> P(sum)"});
}

TEST_CASE("look-ups along a dim split like their indices") {
  CHECK(rows("take_along_dim", {f32({2, 5}), i64({2, 3})}, along(1)) ==
        Texts{"S(0) S(0) -> S(0)", "B S(1) -> S(1)", "S(1) B -> P(sum)", "P(sum) B -> P(sum)",
              "P(max) B -> P(max)", "P(min) B -> P(min)"});
  CHECK(rows("add_along_dim", {f32({2, 3}), i64({2, 3})},
             {{"dim", std::int64_t{1}}, {"extent", std::int64_t{5}}}) ==
        Texts{"S(0) S(0) -> S(0)", "S(1) S(1) -> P(sum)", "B B -> S(1)", "P(sum) B -> P(sum)"});
  CHECK(rows("one_hot", {i64({2})}, {{"extent", std::int64_t{5}}, {"dtype", std::string("f32")}}) ==
        Texts{"S(0) -> S(0)", "B -> S(1)"});
}

TEST_CASE("shape rules of moves, look-ups and batched products give the shapes of their formulas") {
  CHECK(infer("batch_matmul", {bf16({5, 3, 2}), bf16({5, 4, 3})},
              {{"transpose_x", true}, {"transpose_w", true}}) == std::vector{bf16({5, 2, 4})});
  CHECK(infer("batch_matmul", {bf16({2, 3}), bf16({3, 4})}, {{"out_dtype", std::string("f32")}}) ==
        std::vector{f32({2, 4})});
  CHECK(infer("split", {i64({7, 2})}, parts(0, {3, 0, 4})) ==
        std::vector{i64({3, 2}), i64({0, 2}), i64({4, 2})});
  CHECK(infer("concat", {bf16({2, 3}), bf16({2, 0})}, parts(1, {3, 0})) ==
        std::vector{bf16({2, 3})});
  CHECK(infer("gather", {bf16({2, 5, 3}), i64({7, 4})}, along(1)) ==
        std::vector{bf16({2, 7, 4, 3})});
  CHECK(infer("gather", {bf16({5}), i64({})}, along(0)) == std::vector{bf16({})});
  const Attributes back = {{"dim", std::int64_t{1}}, {"extent", std::int64_t{5}}};
  CHECK(infer("scatter_add", {bf16({2, 7, 4, 3}), i64({7, 4})}, back) ==
        std::vector{f32({2, 5, 3})});
  CHECK(infer("take_along_dim", {bf16({2, 5}), i64({2, 9})}, along(1)) ==
        std::vector{bf16({2, 9})});
  CHECK(infer("add_along_dim", {bf16({2, 9}), i64({2, 9})}, back) == std::vector{f32({2, 5})});
  CHECK(infer("one_hot", {i64({2, 3})},
              {{"extent", std::int64_t{4}}, {"dtype", std::string("bf16")}}) ==
        std::vector{bf16({2, 3, 4})});
}

TEST_CASE("what does not fit is refused by name, with what was found and wanted") {
  CHECK(contains(refusal("batch_matmul", {f32({5, 2, 3}), f32({4, 3, 2})}),
                 "5x2x3 f32 and w is 4x3x2 f32: wanted equal leading dims"));
  CHECK(contains(refusal("batch_matmul", {f32({5, 2, 3}), f32({5, 4, 3})}),
                 "3 columns of x meet 4 rows of w"));
  CHECK(contains(refusal("batch_matmul", {f32({3}), f32({3, 2})}), "wanted at least 2 dims"));
  CHECK(contains(refusal("batch_matmul", {f32({2, 3}), bf16({3, 2})}), "w is 3x2 bf16"));
  CHECK(contains(refusal("slice", {f32({2, 3})}, cut(1, 2, 4)), "[2, 4) does not lie in dim 1"));
  CHECK(contains(refusal("slice", {f32({2, 3})}, cut(-1, 0, 1)), "dim -1 is not a dim of 2x3 f32"));
  CHECK(contains(refusal("split", {f32({5})}, parts(0, {2, 2})),
                 "parts of [2, 2] are 4 in all, dim 0 of 5 f32 has 5"));
  CHECK(contains(refusal("split", {f32({5})}, parts(0, {6, -1})), "extents [6, -1], wanted"));
  CHECK(contains(refusal("split", {f32({0})}, parts(0, {})), "wanted one per part"));
  CHECK(contains(refusal("concat", {f32({2, 3}), f32({2, 4})}, parts(0, {2, 2})),
                 "input 1 is 2x4 f32, wanted 2x3 f32"));
  CHECK(
      contains(refusal("concat", {f32({2}), f32({3})}, parts(0, {2})), "2 inputs and extents [2]"));
  CHECK(contains(refusal("concat", {f32({2}), bf16({3})}, parts(0, {2, 3})),
                 "input 1 is 3 bf16, wanted 3 f32"));
  CHECK(
      contains(refusal("gather", {f32({2}), f32({3})}, along(0)), "indices is 3 f32, wanted i32"));
  CHECK(contains(refusal("gather", {f32({}), i64({3})}, along(0)), "dim 0 is not a dim of () f32"));
  CHECK(contains(refusal("scatter_add", {f32({2, 3}), i64({4})},
                         {{"dim", std::int64_t{1}}, {"extent", std::int64_t{5}}}),
                 "wanted the dims of indices from dim 1 of u on"));
  CHECK(contains(refusal("scatter_add", {f32({2}), i64({2, 2})},
                         {{"dim", std::int64_t{0}}, {"extent", std::int64_t{5}}}),
                 "2 dims from dim 0 on are not dims of 2 f32"));
  CHECK(contains(refusal("scatter_add", {f32({2}), i64({2})},
                         {{"dim", std::int64_t{0}}, {"extent", std::int64_t{-5}}}),
                 "extent -5"));
  CHECK(contains(refusal("take_along_dim", {f32({2, 5}), i64({3, 5})}, along(1)),
                 "wanted equal extents in all dims but 1"));
  CHECK(contains(refusal("add_along_dim", {f32({2, 5}), i64({2, 4})},
                         {{"dim", std::int64_t{1}}, {"extent", std::int64_t{5}}}),
                 "indices is 2x4 i64, wanted shape 2x5"));
}

TEST_CASE("a batched product costs two FLOPs per multiply-add of every batch element") {
  const std::vector<TensorType> inputs = {bf16({5, 3, 2}), bf16({5, 3, 4})};
  const Attributes transposed = {{"transpose_x", true}};
  const Work work = builtin_operators()
                        .get("batch_matmul")
                        .work(inputs, infer("batch_matmul", inputs, transposed), transposed);
  CHECK(work.flops == 2.0 * 5 * 2 * 4 * 3);
  CHECK(work.kernel == "matmul:10x4x3");
}

// Builders

class Graph {
 public:
  Graph() : x(add_input(graph, "x", 0, f32({2, 3, 1, 4}))) {}
  Shape shape(TensorId id) const { return graph.tensor(id).type.shape; }
  const Attributes& attributes(TensorId id) const {
    return graph.op(graph.tensor(id).producer).attributes;
  }

  LogicalGraph graph{builtin_operators()};
  TensorId x;
  Rearranger build{graph, 0};
};

TEST_CASE("builders count negative dims from the end and keep the dim that is meant") {
  Graph g;
  CHECK(g.attributes(g.build.slice("slice", g.x, -1, -3, 4)) == cut(3, 1, 4));
  CHECK(g.attributes(g.build.slice("slice2", g.x, 1, 0, -1)) == cut(1, 0, 2));
  CHECK(g.attributes(g.build.transpose("transpose", g.x, {0, -1, -2, 1})) ==
        Attributes{{"permutation", Integers{0, 3, 2, 1}}});
  CHECK(g.attributes(g.build.concat("concat", {g.x, g.x}, -3)) == parts(1, {3, 3}));
  CHECK(g.attributes(g.build.split("split", g.x, -3, {1, 2})[0]) == parts(1, {1, 2}));
  const TensorId indices = add_input(g.graph, "i", 0, i64({7}));
  CHECK(g.attributes(g.build.gather("gather", g.x, indices, -4)) == along(0));
  CHECK(g.shape(g.build.unsqueeze("last", g.x, -1)) == Shape{2, 3, 1, 4, 1});
  CHECK(g.shape(g.build.unsqueeze("first", g.x, -5)) == Shape{1, 2, 3, 1, 4});
  CHECK(g.shape(g.build.squeeze("squeeze", g.x, -2)) == Shape{2, 3, 4});
  CHECK(g.shape(g.build.flatten("flatten", g.x, -3, -1)) == Shape{2, 12});
  CHECK(g.shape(g.build.reshape("reshape", g.x, {-1, 6})) == Shape{4, 6});
  CHECK(g.shape(g.build.select("select", g.x, -3, -1)) == Shape{2, 1, 4});
  CHECK(g.shape(g.build.stack("stack", {g.x, g.x}, -1)) == Shape{2, 3, 1, 4, 2});
  const std::vector<TensorId> unbound = g.build.unbind("unbind", g.x, -3);
  CHECK(unbound.size() == 3);
  CHECK(g.shape(unbound[2]) == Shape{2, 1, 4});
}

TEST_CASE("builders refuse dims and indices that are not there, naming the operator") {
  Graph g;
  CHECK(refusal([&] { g.build.squeeze("s", g.x, 4); }) == "operator 's': dim 4 is not in [-4, 4)");
  CHECK(refusal([&] { g.build.unsqueeze("u", g.x, -6); }) ==
        "operator 'u': dim -6 is not in [-5, 5)");
  CHECK(refusal([&] { g.build.squeeze("s", g.x, 1); }) ==
        "operator 's': dim 1 of 2x3x1x4 has 3 elements, wanted one");
  CHECK(refusal([&] { g.build.select("e", g.x, 1, 3); }) ==
        "operator 'e': index 3 is not in [-3, 3)");
  CHECK(
      contains(refusal([&] { g.build.slice("c", g.x, 1, 0, 4); }), "[0, 4) does not lie in dim 1"));
  CHECK(refusal([&] { g.build.slice("c", g.x, 1, -4, 2); }) ==
        "operator 'c': start -4 is not in [-3, 3)");
  CHECK(contains(refusal([&] {
                   g.build.reshape("r", g.x, {5, -1});
                 }),
                 "24 elements are no multiple of the 5"));
  CHECK(contains(refusal([&] { g.build.concat("k", {}, 0); }), "nothing to concatenate"));
  CHECK(contains(refusal([&] { g.build.flatten("f", g.x, 2, 1); }), "dims 2 to 1"));
}

}  // namespace
}  // namespace sextant::shape_operators_test
