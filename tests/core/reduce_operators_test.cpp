// Shapes, rows and refusals of the reductions and of what is built on them, stated by hand.
#include "core/base/error.h"
#include "core/graphs/operator.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sextant::reduce_operators_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Texts = std::set<std::string>;

TensorType typed(Shape shape, DType dtype = DType::kF32) {
  return {.shape = std::move(shape), .dtype = dtype};
}

std::vector<TensorType> infer(std::string_view kind, const std::vector<TensorType>& inputs,
                              const Attributes& attributes) {
  return builtin_operators().get(kind).infer(inputs, attributes);
}

// "S(0) B -> S(0)".
Texts row_texts(std::string_view kind, const std::vector<TensorType>& inputs,
                const Attributes& attributes) {
  Texts texts;
  const OperatorDef& def = builtin_operators().get(kind);
  for (const SbpSignature& row :
       def.signatures(inputs, infer(kind, inputs, attributes), attributes)) {
    std::string text;
    for (const Sbp& word : row.inputs) text += to_string(word) + " ";
    text += "->";
    for (const Sbp& word : row.outputs) text += " " + to_string(word);
    texts.insert(text);
  }
  return texts;
}

std::string refusal(std::string_view kind, const std::vector<TensorType>& inputs,
                    const Attributes& attributes) {
  try {
    infer(kind, inputs, attributes);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a reduced dim vanishes or keeps extent 1, and later dims move up") {
  const TensorType x = typed({2, 5, 4});
  CHECK(infer("reduce_sum", {x}, {{"dims", Integers{1}}}) == std::vector{typed({2, 4})});
  CHECK(infer("reduce_max", {x}, {{"dims", Integers{-1, 0}}, {"keep_dims", true}}) ==
        std::vector{typed({1, 5, 1})});
  CHECK(infer("reduce_min", {x}, {{"dims", Integers{0, 1, 2}}}) == std::vector{typed({})});
  CHECK(infer("reduce_mean", {x}, {{"dims", Integers{}}, {"out_dtype", "f64"}}) ==
        std::vector{typed({2, 5, 4}, DType::kF64)});
  CHECK(row_texts("reduce_sum", {x}, {{"dims", Integers{1}}}) ==
        Texts{"B -> B", "S(0) -> S(0)", "S(1) -> P(sum)", "S(2) -> S(1)", "P(sum) -> P(sum)"});
  CHECK(row_texts("reduce_max", {x}, {{"dims", Integers{1}}, {"keep_dims", true}}) ==
        Texts{"B -> B", "S(0) -> S(0)", "S(1) -> P(max)", "S(2) -> S(2)", "P(max) -> P(max)"});
  CHECK(row_texts("reduce_min", {x}, {{"dims", Integers{0, 2}}}) ==
        Texts{"B -> B", "S(0) -> P(min)", "S(1) -> S(0)", "S(2) -> P(min)", "P(min) -> P(min)"});
}

TEST_CASE("a sum of bool has no partial sums to read, since true and true is no 2") {
  const Attributes attributes = {{"dims", Integers{0}}, {"out_dtype", "i64"}};
  CHECK(row_texts("reduce_sum", {typed({3, 2}, DType::kBool)}, attributes) ==
        Texts{"B -> B", "S(0) -> P(sum)", "S(1) -> S(0)"});
}

TEST_CASE("what reduces nothing lets every partial value pass") {
  CHECK(row_texts("reduce_max", {typed({1, 3})}, {{"dims", Integers{0}}}) ==
        Texts{"B -> B", "S(0) -> P(max)", "S(1) -> S(0)", "P(max) -> P(max)", "P(sum) -> P(sum)",
              "P(min) -> P(min)"});
}

TEST_CASE("scans, indices and softmax take a split of their own dim") {
  const TensorType x = typed({2, 4});
  CHECK(row_texts("cumsum", {x}, {{"dim", std::int64_t{-1}}}) ==
        Texts{"B -> B", "S(0) -> S(0)", "S(1) -> P(sum)", "P(sum) -> P(sum)"});
  CHECK(row_texts("first_index_of", {x, typed({2})}, {{"dim", std::int64_t{1}}}) ==
        Texts{"B B -> B", "S(0) S(0) -> S(0)", "S(1) B -> P(min)"});
  CHECK(row_texts("softmax", {x, typed({2}), typed({2})}, {{"dims", Integers{1}}}) ==
        Texts{"B B B -> B", "S(0) S(0) S(0) -> S(0)", "S(1) B B -> S(1)"});
}

TEST_CASE("a batch norm's weights follow the channels and its statistics too") {
  const TensorType x = typed({3, 2, 5}), channels = typed({2});
  const Attributes attributes = {{"dims", Integers{0, 2}}, {"weight_dims", Integers{1}}};
  CHECK(row_texts("normalize", {x, channels, channels, channels, channels}, attributes) ==
        Texts{"B B B B B -> B", "S(0) B B B B -> S(0)", "S(1) S(0) S(0) S(0) S(0) -> S(1)",
              "S(2) B B B B -> S(2)", "P(sum) P(sum) B B P(sum) -> P(sum)"});
  CHECK(row_texts("normalize_grad_weight", {x, channels, channels, x}, attributes)
            .contains("S(1) S(0) S(0) S(1) -> S(0) S(0)"));
  CHECK(row_texts("normalize_grad_weight", {x, channels, channels, x}, attributes)
            .contains("S(0) B B S(0) -> P(sum) P(sum)"));
  // dbeta and dgamma as sums: summed over batches, split as channels.
  Attributes of_weights = attributes;
  of_weights.set("sums", std::string("of_weights"));
  CHECK(row_texts("normalize_grad_input", {x, channels, channels, channels, channels, channels, x},
                  of_weights) == Texts{"B B B B B B B -> B", "S(0) B B B B B S(0) -> S(0)",
                                       "S(1) S(0) S(0) S(0) S(0) S(0) S(1) -> S(1)",
                                       "S(2) B B B B B S(2) -> S(2)",
                                       "B B B B P(sum) P(sum) P(sum) -> P(sum)"});
}

TEST_CASE("reductions refuse dims that are not there and types that lose the sum") {
  const TensorType x = typed({2, 3});
  CHECK(refusal("reduce_sum", {x}, {{"dims", Integers{2}}}) ==
        "reduce_sum: dim 2 of a tensor of 2 dims, wanted -2 to 1");
  CHECK(refusal("reduce_max", {x}, {{"dims", Integers{1, -1}}}) ==
        "reduce_max: dim 1 is named twice");
  CHECK(refusal("reduce_sum", {x}, {{"dims", Integers{0}}, {"out_dtype", "i32"}}) ==
        "reduce_sum: out_dtype i32 for x 2x3 f32, wanted a floating type");
  CHECK(refusal("reduce_sum", {typed({2}, DType::kBool)}, {{"dims", Integers{0}}}) ==
        "reduce_sum: x is 2 bool, so out_dtype must say in which type to count");
  CHECK(refusal("reduce_mean", {typed({2}, DType::kI32)}, {{"dims", Integers{0}}}) ==
        "reduce_mean: x is 2 i32, wanted a floating element type");
  CHECK(refusal("expand", {x}, {{"dims", Integers{0}}, {"shape", Integers{4, 3, 2}}}) ==
        "expand: x is 2x3 f32, wanted shape 3x2");
  CHECK(refusal("reduce_dot", {x, typed({3, 2})}, {{"dims", Integers{0}}}) ==
        "reduce_dot: b is 3x2 f32, wanted 2x3 f32");
}

TEST_CASE("scans, indices, softmax and norms refuse what does not belong to x") {
  const TensorType x = typed({2, 3});
  CHECK(refusal("cumsum", {typed({2}, DType::kBool)}, {{"dim", std::int64_t{0}}}) ==
        "cumsum: x is 2 bool, wanted numbers: cast it first");
  CHECK(refusal("cumsum", {typed({})}, {{"dim", std::int64_t{0}}}) ==
        "cumsum: dim 0 of a tensor of 0 dims, which has none");
  CHECK(refusal("first_index_of", {x, typed({2}, DType::kI32)}, {{"dim", std::int64_t{1}}}) ==
        "first_index_of: value is 2 i32, wanted 2 f32");
  CHECK(refusal("softmax", {x, typed({3}), typed({2})}, {{"dims", Integers{1}}}) ==
        "softmax: max is 3 f32, wanted 2 f32");
  const Attributes last = {{"dims", Integers{1}}, {"weight_dims", Integers{1}}};
  CHECK(refusal("normalize", {x, typed({2}), typed({2}), typed({3})}, last) ==
        "normalize: 4 inputs, wanted 5 with a mean or 3 without");
  CHECK(refusal("normalize", {x, typed({2}), typed({2})}, last) ==
        "normalize: gamma is 2 f32, wanted 3 f32");
  Attributes unknown = last;
  unknown.set("statistics", std::string("local"));
  CHECK(refusal("normalize", {x, typed({2}), typed({3})}, unknown) ==
        "normalize: statistics are 'local', wanted given or of_x");
}

}  // namespace
}  // namespace sextant::reduce_operators_test
