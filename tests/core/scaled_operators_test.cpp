// What the operators of 8-bit products take, make and refuse.
#include "core/base/error.h"
#include "core/graphs/operator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sextant::scaled_operators_test {
namespace {

TensorType type(Shape shape, DType dtype) { return {.shape = std::move(shape), .dtype = dtype}; }
const TensorType kScale = type(Shape(), DType::kF32);

std::vector<TensorType> infer(const char* kind, std::vector<TensorType> inputs,
                              const Attributes& attributes) {
  return builtin_operators().get(kind).infer(inputs, attributes);
}

std::string refusal(const char* kind, std::vector<TensorType> inputs,
                    const Attributes& attributes) {
  try {
    infer(kind, std::move(inputs), attributes);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kBadInput);
    return error.what();
  }
  return "";
}

bool has_row(const char* kind, const std::vector<TensorType>& inputs, const Attributes& attributes,
             const SbpSignature& wanted) {
  const auto& def = builtin_operators().get(kind);
  const std::vector<TensorType> outputs = def.infer(inputs, attributes);
  const auto rows = def.signatures(inputs, outputs, attributes);
  return std::find(rows.begin(), rows.end(), wanted) != rows.end();
}

const Sbp kWhole = Sbp::broadcast();

TEST_CASE("quantize makes rows, columns or both, split where its input is") {
  const std::vector<TensorType> inputs = {type({2, 5, 3}, DType::kBF16), kScale};
  const TensorType rows = type({2, 5, 3}, DType::kE4M3), columns = type({3, 2, 5}, DType::kE4M3);
  const auto layout = [](const char* name) {
    return Attributes{{"dtype", "e4m3"}, {"layout", name}};
  };
  CHECK(infer("quantize", inputs, {{"dtype", "e4m3"}}) == std::vector{rows});
  CHECK(infer("quantize", inputs, layout("rows")) == std::vector{rows});
  CHECK(infer("quantize", inputs, layout("columns")) == std::vector{columns});
  CHECK(infer("quantize", inputs, layout("both")) == std::vector{rows, columns});
  CHECK(has_row("quantize", inputs, layout("both"),
                {{Sbp::split(1), kWhole}, {Sbp::split(1), Sbp::split(2)}}));
  CHECK(has_row("quantize", inputs, layout("columns"), {{Sbp::split(2), kWhole}, {Sbp::split(0)}}));
  CHECK_FALSE(refusal("quantize", inputs, layout("diagonal")).empty());
  CHECK(has_row("quantize_scale", {inputs[0]}, {{"dtype", "e5m2"}},
                {{Sbp::split(2)}, {Sbp::partial(ReduceOp::kMax)}}));
}

TEST_CASE("a scaled product contracts the last dims of both") {
  const std::vector<TensorType> forward = {type({2, 5, 3}, DType::kE5M2),
                                           type({7, 3}, DType::kE4M3), kScale, kScale};
  CHECK(infer("scaled_matmul", forward, {{"out_dtype", "bf16"}}) ==
        std::vector{type({2, 5, 7}, DType::kBF16)});
  const std::vector<TensorType> gradient = {type({3, 2, 5}, DType::kE4M3),
                                            type({7, 2, 5}, DType::kE5M2), kScale, kScale};
  const Attributes two{{"out_dtype", "f32"}, {"contracted", std::int64_t{2}}};
  CHECK(infer("scaled_matmul", gradient, two) == std::vector{type({3, 7}, DType::kF32)});
  CHECK(has_row("scaled_matmul", gradient, two,
                {{Sbp::split(2), Sbp::split(2), kWhole, kWhole}, {Sbp::partial()}}));
  CHECK(has_row("scaled_matmul", gradient, two,
                {{kWhole, Sbp::split(0), kWhole, kWhole}, {Sbp::split(1)}}));
  const auto work = [&](const std::vector<TensorType>& inputs, const Attributes& attributes) {
    const auto& def = builtin_operators().get("scaled_matmul");
    return def.work(inputs, def.infer(inputs, attributes), attributes);
  };
  CHECK(work(forward, {{"out_dtype", "bf16"}}).kernel == "scaled_matmul:10x7x3");
  CHECK(work(gradient, two).kernel == "scaled_matmul:3x7x10");
  CHECK(work(gradient, two).flops == 2.0 * 3 * 7 * 10);
}

TEST_CASE("operands that no tensor core takes are refused by name") {
  const TensorType e4m3 = type({5, 3}, DType::kE4M3), e5m2 = type({5, 3}, DType::kE5M2);
  const Attributes f32{{"out_dtype", "f32"}};
  CHECK(refusal("scaled_matmul", {e5m2, e5m2, kScale, kScale}, f32).find("one must be e4m3") !=
        std::string::npos);
  CHECK(refusal("scaled_matmul", {type({5, 3}, DType::kBF16), e4m3, kScale, kScale}, f32) ==
        "scaled_matmul: a is 5x3 bf16, wanted e4m3 or e5m2");
  CHECK_FALSE(
      refusal("scaled_matmul", {e4m3, type({5, 4}, DType::kE4M3), kScale, kScale}, f32).empty());
  CHECK_FALSE(refusal("scaled_matmul", {e4m3, e4m3, kScale, type({1}, DType::kF32)}, f32).empty());
  CHECK_FALSE(
      refusal("scaled_matmul", {e4m3, e4m3, kScale, kScale}, {{"out_dtype", "i32"}}).empty());
  CHECK_FALSE(refusal("quantize_scale", {type({5}, DType::kBF16)}, {{"dtype", "bf16"}}).empty());
}

TEST_CASE("nothing but quantize makes elements of 8 bits, and nothing computes in them") {
  const Attributes parameter{{"shape", std::vector<std::int64_t>{4}},
                             {"dtype", "e4m3"},
                             {"init", "zeros"},
                             {"init_std", 0.0}};
  CHECK(refusal("parameter", {}, parameter).find("e4m3") != std::string::npos);
  CHECK(refusal("input", {}, {{"shape", std::vector<std::int64_t>{4}}, {"dtype", "e5m2"}})
            .find("e5m2") != std::string::npos);
  CHECK(refusal("cast", {type({4}, DType::kF32)}, {{"dtype", "e4m3"}}) ==
        "dtype e4m3: elements of 8 bits are made by quantize alone");
  const TensorType matrix = type({4, 4}, DType::kF32), narrow = type({4, 4}, DType::kE4M3);
  CHECK_FALSE(refusal("matmul", {matrix, matrix}, {{"out_dtype", "e5m2"}}).empty());
  CHECK_FALSE(refusal("matmul", {narrow, narrow}, {}).empty());
  CHECK_FALSE(refusal("relu", {narrow}, {}).empty());
  CHECK_FALSE(refusal("add", {narrow, narrow}, {}).empty());
}

}  // namespace
}  // namespace sextant::scaled_operators_test
