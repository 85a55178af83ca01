// Reference kernels of the element-wise kinds against numbers worked out by hand, at the edges of
// every element type: NaN, infinities, signed zeros, division by zero, values outside integers.
#include "backends/cpu/kernels/shared/kernel.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sextant::elementwise_kernels_test {
namespace {

using Numbers = std::vector<double>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Operand {
  Shape shape;
  Numbers values;
  DType dtype;
};

Operand row(Numbers values, DType dtype = DType::kF64) {
  const auto extent = static_cast<std::int64_t>(values.size());
  return {Shape{extent}, std::move(values), dtype};
}

// In both tables, which must agree bit for bit on these kinds in these types.
Numbers run(const std::string& kind, const std::vector<Operand>& inputs, Shape shape, DType out,
            const Attributes& attributes = {}) {
  std::vector<Numbers> found;
  for (const KernelTable& table : {reference_kernels(), fast_kernels()}) {
    KernelCall call(kind, attributes);
    for (const Operand& input : inputs) call.input({{input.shape, input.dtype}, input.values, {}});
    found.push_back(call.output({{shape, out}, {}, {}}).run(table)[0]);
  }
  REQUIRE(found[0].size() == found[1].size());
  for (std::size_t i = 0; i < found[0].size(); ++i)
    CHECK((found[0][i] == found[1][i] || (std::isnan(found[0][i]) && std::isnan(found[1][i]))));
  return found[0];
}

Numbers run(const std::string& kind, const std::vector<Operand>& inputs,
            const Attributes& attributes = {}) {
  return run(kind, inputs, inputs[0].shape, inputs[0].dtype, attributes);
}

// Equal values, NaN where NaN is expected, and zeros of the same sign.
void check_same(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    if (std::isnan(expected[i])) {
      CHECK(std::isnan(found[i]));
    } else {
      CHECK(found[i] == expected[i]);
      CHECK(std::signbit(found[i]) == std::signbit(expected[i]));
    }
  }
}

void check_near(const Numbers& found, const Numbers& expected) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(1e-14));
}

TEST_CASE("exact functions of one number, with signed zeros, infinities and NaN") {
  const Operand x = row({-2, -0.0, 0, 3, -kInfinity, kInfinity, kNan});
  check_same(run("neg", {x}), {2, 0, -0.0, -3, kInfinity, -kInfinity, kNan});
  check_same(run("abs", {x}), {2, 0, 0, 3, kInfinity, kInfinity, kNan});
  check_same(run("square", {x}), {4, 0, 0, 9, kInfinity, kInfinity, kNan});
  check_same(run("sign", {x}), {-1, -0.0, 0, 1, -1, 1, kNan});
  check_same(run("reciprocal", {x}), {-0.5, -kInfinity, kInfinity, 1.0 / 3, -0.0, 0, kNan});
  check_same(run("relu", {x}), {0, 0, 0, 3, 0, kInfinity, kNan});
  check_same(run("scale", {x}, {{"factor", -2.0}}), {4, 0, -0.0, -6, kInfinity, -kInfinity, kNan});
  check_same(run("add_scalar", {x}, {{"value", 10.0}}),
             {8, 10, 10, 13, -kInfinity, kInfinity, kNan});
  check_same(run("clamp", {x}, {{"min", -1.0}, {"max", 2.0}}), {-1, -0.0, 0, 2, -1, 2, kNan});
  check_same(run("clamp", {x}, {{"max", 1.0}}), {-2, -0.0, 0, 1, -kInfinity, 1, kNan});
}

TEST_CASE("rounding goes down, or to the nearest with ties to even") {
  const Operand x = row({-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.75, -kInfinity, kNan});
  check_same(run("floor", {x}), {-3, -2, -1, 0, 1, 2, 2, -kInfinity, kNan});
  check_same(run("round", {x}), {-2, -2, -0.0, 0, 2, 2, 3, -kInfinity, kNan});
}

TEST_CASE("curved functions have their values and their limits") {
  const Operand x = row({0, 1, -kInfinity, kInfinity, kNan});
  const double e = std::exp(1.0);
  check_same(run("exp", {x}), {1, e, 0, kInfinity, kNan});
  check_same(run("tanh", {x}), {0, std::tanh(1.0), -1, 1, kNan});
  check_near(run("sigmoid", {row({0, 1, -1})}), {0.5, e / (1 + e), 1 / (1 + e)});
  check_same(run("sigmoid", {row({-kInfinity, kInfinity, kNan})}), {0, 1, kNan});
  const Operand roots = row({0, 1, 4, -1, kInfinity, kNan});
  check_same(run("log", {roots}), {-kInfinity, 0, std::log(4.0), kNan, kInfinity, kNan});
  check_same(run("sqrt", {roots}), {0, 1, 2, kNan, kInfinity, kNan});
  check_same(run("rsqrt", {roots}), {kInfinity, 1, 0.5, kNan, 0, kNan});
}

TEST_CASE("powers of numbers on both sides of zero") {
  const Operand x = row({-2, 0, 4});
  check_same(run("pow", {x}, {{"exponent", 3.0}}), {-8, 0, 64});
  check_same(run("pow", {x}, {{"exponent", -2.0}}), {0.25, kInfinity, 0.0625});
  check_same(run("pow", {x}, {{"exponent", 0.5}}), {kNan, 0, 2});
  check_same(run("pow", {x}, {{"exponent", 0.0}}), {1, 1, 1});
}

TEST_CASE("slopes are those of the functions") {
  const Operand dy = row({10, 10, 10});
  check_same(run("relu_grad", {row({0, 2, -1}), dy}), {0, 10, 0});
  check_same(run("tanh_grad", {row({0, 0.5, 1}), dy}), {10, 7.5, 0});           // 1 - y^2
  check_same(run("sigmoid_grad", {row({0, 0.5, 0.25}), dy}), {0, 2.5, 1.875});  // y (1 - y)
  check_same(run("clamp_grad", {row({-1, 2, 2.5}), dy}, {{"min", -1.0}, {"max", 2.0}}),
             {10, 10, 0});
  check_same(run("maximum_grad", {row({1, 2, 3}), row({2, 2, 2}), dy}), {0, 5, 10});
  check_same(run("minimum_grad", {row({1, 2, 3}), row({2, 2, 2}), dy}), {10, 5, 0});
}

TEST_CASE("arithmetic of two numbers, with infinities and NaN") {
  const Operand a = row({6, -1, 0, kInfinity, kNan}), b = row({4, 0, 0, kInfinity, 1});
  check_same(run("add", {a, b}), {10, -1, 0, kInfinity, kNan});
  check_same(run("sub", {a, b}), {2, -1, 0, kNan, kNan});
  check_same(run("mul", {a, b}), {24, -0.0, 0, kInfinity, kNan});
  check_same(run("div", {a, b}), {1.5, -kInfinity, kNan, kNan, kNan});
  check_same(run("maximum", {a, b}), {6, 0, 0, kInfinity, kNan});
  check_same(run("minimum", {a, b}), {4, -1, 0, kInfinity, kNan});
  check_same(run("maximum", {b, a}), {6, 0, 0, kInfinity, kNan});
  check_same(run("minimum", {row({0.0, -0.0}), row({-0.0, 0.0})}), {0, -0.0});  // the first
}

TEST_CASE("comparisons put NaN in no order") {
  const Operand a = row({1, 2, 3, kNan, kInfinity}), b = row({2, 2, 2, kNan, kInfinity});
  const auto compare = [&](const char* kind) { return run(kind, {a, b}, a.shape, DType::kBool); };
  CHECK(compare("less") == Numbers{1, 0, 0, 0, 0});
  CHECK(compare("less_equal") == Numbers{1, 1, 0, 0, 1});
  CHECK(compare("greater") == Numbers{0, 0, 1, 0, 0});
  CHECK(compare("greater_equal") == Numbers{0, 1, 1, 0, 1});
  CHECK(compare("equal") == Numbers{0, 1, 0, 0, 1});
  CHECK(compare("not_equal") == Numbers{1, 0, 1, 1, 0});
  // -0 equals 0.
  CHECK(run("equal", {row({-0.0}), row({0})}, {1}, DType::kBool) == Numbers{1});
}

TEST_CASE("logic and choice by it") {
  const Operand a = row({0, 0, 1, 1}, DType::kBool), b = row({0, 1, 0, 1}, DType::kBool);
  CHECK(run("logical_and", {a, b}) == Numbers{0, 0, 0, 1});
  CHECK(run("logical_or", {a, b}) == Numbers{0, 1, 1, 1});
  CHECK(run("logical_not", {a}) == Numbers{1, 1, 0, 0});
  // What is not chosen is not looked at.
  check_same(run("where", {a, row({1, kNan, 3, 4}), row({5, 6, kNan, 8})}, {4}, DType::kF64),
             {5, 6, 3, 4});
  CHECK(run("where", {a, b, a}, {4}, DType::kBool) == Numbers{0, 0, 0, 1});
}

TEST_CASE("operands stretch over missing dims and over extents of one") {
  // [1; 2; 3] and [10 20 30]: rows of a, columns of b.
  const Operand column{{3, 1}, {1, 2, 3}, DType::kF64}, line = row({10, 20, 30});
  CHECK(run("add", {column, line}, {3, 3}, DType::kF64) ==
        Numbers{11, 21, 31, 12, 22, 32, 13, 23, 33});
  const Operand one{{}, {5}, DType::kF64};
  CHECK(run("sub", {one, line}, {3}, DType::kF64) == Numbers{-5, -15, -25});
  // 2x1x2 and 3x1: y[i, j, k] = a[i, k] b[j].
  const Operand a{{2, 1, 2}, {1, 2, 3, 4}, DType::kF64}, b{{3, 1}, {1, 10, 100}, DType::kF64};
  CHECK(run("mul", {a, b}, {2, 3, 2}, DType::kF64) ==
        Numbers{1, 2, 10, 20, 100, 200, 3, 4, 30, 40, 300, 400});
  const Operand condition{{2, 1}, {1, 0}, DType::kBool};
  CHECK(run("where", {condition, line, one}, {2, 3}, DType::kF64) == Numbers{10, 20, 30, 5, 5, 5});
  CHECK(run("add", {Operand{{1, 3}, {1, 2, 3}, DType::kF64}, Operand{{0, 1}, {}, DType::kF64}},
            {0, 3}, DType::kF64)
            .empty());
}

TEST_CASE("stretching and integers do not reach the loops over f32") {
  const Operand a = row({1, 2, 3}, DType::kF32), b{{1}, {10}, DType::kF32};
  for (const char* kind : {"add", "mul"}) {
    const bool sums = kind == std::string("add");
    CHECK(run(kind, {a, b}, {3}, DType::kF32) ==
          (sums ? Numbers{11, 12, 13} : Numbers{10, 20, 30}));
    const Operand integers = row({1, 2, 3}, DType::kI32);
    CHECK(run(kind, {integers, integers}) == (sums ? Numbers{2, 4, 6} : Numbers{1, 4, 9}));
  }
}

TEST_CASE("integers divide towards zero, and nothing leaves their range") {
  const Operand a = row({7, -7, 5, -5, 0}, DType::kI32), b = row({2, 2, 0, 0, 0}, DType::kI32);
  CHECK(run("div", {a, b}) == Numbers{3, -3, 2147483647, -2147483648.0, 0});
  const Operand limits = row({2147483647, -2147483648.0}, DType::kI32);
  CHECK(run("add", {limits, limits}) == Numbers{2147483647, -2147483648.0});
  CHECK(run("neg", {limits}) == Numbers{-2147483647, 2147483647});
  CHECK(run("abs", {row({-3, 4}, DType::kI64)}) == Numbers{3, 4});
  CHECK(run("relu", {row({-3, 4}, DType::kI64)}) == Numbers{0, 4});
}

// 2e9 + 2e9 - 2e9 over three micro-batches, as one reduction or all devices together have it: what
// leaves the range on the way comes back.
TEST_CASE("sums of integers over micro-batches wrap around") {
  const TensorType one{{1}, DType::kI32};
  Numbers sum = {2e9};
  for (const double value : {2e9, -2e9})
    sum = KernelCall("add", {})
              .input({one, {value}, {}})
              .input({one, {0}, {}})
              .output({one, sum, {}}, true)
              .run(reference_kernels())[0];
  CHECK(sum == Numbers{2e9});
}

TEST_CASE("casts truncate, saturate, and turn NaN into zero") {
  const Operand x = row({2.9, -2.9, 3e9, -kInfinity, kNan, 0});
  const auto cast = [&x](DType dtype) {
    return run("cast", {x}, x.shape, dtype, {{"dtype", std::string(to_string(dtype))}});
  };
  CHECK(cast(DType::kI32) == Numbers{2, -2, 2147483647, -2147483648.0, 0, 0});
  CHECK(cast(DType::kI64) == Numbers{2, -2, 3e9, -0x1p63, 0, 0});
  CHECK(cast(DType::kBool) == Numbers{1, 1, 1, 1, 1, 0});
  // 257 lies halfway between 256 and 258 in bf16: to even.
  CHECK(run("cast", {row({257, 259})}, {2}, DType::kBF16, {{"dtype", "bf16"}}) ==
        Numbers{256, 260});
}

}  // namespace
}  // namespace sextant::elementwise_kernels_test
