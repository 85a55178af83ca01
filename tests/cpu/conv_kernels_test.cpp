// Convolutions and pools against numbers worked out by hand.
#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/error.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace sextant::conv_kernels_test {
namespace {

using Numbers = std::vector<double>;
using Integers = std::vector<std::int64_t>;

TestOperand f64(Shape shape, Numbers values, Integers offsets = {}, std::optional<Shape> all = {}) {
  return {{std::move(shape), DType::kF64}, std::move(values), std::move(offsets), std::move(all)};
}

Numbers run(const std::string& kind, std::vector<TestOperand> inputs, TestOperand output,
            Attributes attributes) {
  KernelCall call(kind, std::move(attributes));
  for (TestOperand& input : inputs) call.input(std::move(input));
  return call.output(std::move(output)).run(reference_kernels())[0];
}

const Numbers kOneToEight{1, 2, 3, 4, 5, 6, 7, 8};

TEST_CASE("a convolution sums what its windows see, padding as zero") {
  const TestOperand x = f64({1, 1, 8}, kOneToEight), ones = f64({1, 1, 3}, {1, 1, 1});
  const Attributes padded{{"padding", Integers{1}}};
  CHECK(run("conv", {x, ones}, f64({1, 1, 8}, {}), padded) == Numbers{3, 6, 9, 12, 15, 18, 21, 15});
  // Not flipped: y[i] = 1 x[i] + 10 x[i + 1] + 100 x[i + 2].
  const TestOperand w = f64({1, 1, 3}, {1, 10, 100});
  CHECK(run("conv", {x, w}, f64({1, 1, 6}, {}), {}) == Numbers{321, 432, 543, 654, 765, 876});
  // Stride 2, dilation 2: x[2i] + 10 x[2i + 2] + 100 x[2i + 4].
  CHECK(run("conv", {x, w}, f64({1, 1, 2}, {}),
            {{"stride", Integers{2}}, {"dilation", Integers{2}}}) == Numbers{531, 753});
}

TEST_CASE("channels are contracted within their group") {
  // Two samples of two channels, kernel 1: w = [1 2; 3 4].
  const TestOperand x = f64({2, 2, 2}, {1, 2, 10, 20, 3, 4, 30, 40});
  CHECK(run("conv", {x, f64({2, 2, 1}, {1, 2, 3, 4})}, f64({2, 2, 2}, {}), {}) ==
        Numbers{21, 42, 43, 86, 63, 84, 129, 172});
  // Two groups of one channel with two outputs each: w = 1, 2 | 3, 4.
  CHECK(run("conv", {f64({1, 2, 2}, {1, 2, 10, 20}), f64({4, 1, 1}, {1, 2, 3, 4})},
            f64({1, 4, 2}, {}), {}) == Numbers{1, 2, 2, 4, 30, 60, 40, 80});
}

TEST_CASE("two dims have strides and padding of their own") {
  // [1 2 3; 4 5 6], kernel 2x2 of ones, padding [1, 0], stride [2, 1]: rows (pad, 1) and (2, pad).
  CHECK(run("conv", {f64({1, 1, 2, 3}, {1, 2, 3, 4, 5, 6}), f64({1, 1, 2, 2}, {1, 1, 1, 1})},
            f64({1, 1, 2, 2}, {}), {{"padding", Integers{1, 0}}, {"stride", Integers{2, 1}}}) ==
        Numbers{1 + 2, 2 + 3, 4 + 5, 5 + 6});
}

TEST_CASE("the gradients of a convolution are its transposes") {
  const Attributes attributes{{"shape", Integers{1, 1, 4}}, {"padding", Integers{1}}};
  // y[i] = w0 x[i-1] + w1 x[i] + w2 x[i+1]; dy = [1, 2, 3, 4], w = [1, 10, 100]:
  // dx[i] = w2 dy[i-1] + w1 dy[i] + w0 dy[i+1].
  const TestOperand dy = f64({1, 1, 4}, {1, 2, 3, 4}), w = f64({1, 1, 3}, {1, 10, 100});
  CHECK(run("conv_grad_input", {dy, w}, f64({1, 1, 4}, {}), attributes) ==
        Numbers{12, 123, 234, 340});
  // dw0 = sum dy[i] x[i-1] = 2*1 + 3*2 + 4*3, dw1 = 1 + 4 + 9 + 16, dw2 = 1*2 + 2*3 + 3*4.
  CHECK(run("conv_grad_weight", {f64({1, 1, 4}, {1, 2, 3, 4}), dy}, f64({1, 1, 3}, {}),
            {{"shape", Integers{1, 1, 3}}, {"padding", Integers{1}}}) == Numbers{20, 30, 20});
}

TEST_CASE("a shard of x gives its share of the windows that cross its border") {
  // Positions 4 to 7 of 8: the window at 3 sees 5 here, at 7 the end.
  const TestOperand right = f64({1, 1, 4}, {5, 6, 7, 8}, {0, 0, 4});
  CHECK(run("conv", {right, f64({1, 1, 3}, {1, 1, 1})}, f64({1, 1, 8}, {}),
            {{"padding", Integers{1}}}) == Numbers{0, 0, 0, 5, 11, 18, 21, 15});
  CHECK(run("conv", {f64({1, 1, 0}, {}, {0, 0, 8}), f64({1, 1, 3}, {1, 1, 1})}, f64({1, 1, 8}, {}),
            {{"padding", Integers{1}}}) == Numbers(8, 0.0));
}

const Attributes kPool{{"kernel", Integers{3}}, {"stride", Integers{2}}, {"padding", Integers{1}}};

TEST_CASE("a maximum never comes from the padding, and the first of equals gets the gradient") {
  // Windows (pad, -1, -5), (-5, -2, -2), (-2, -9, pad).
  const TestOperand x = f64({1, 1, 5}, {-1, -5, -2, -2, -9});
  CHECK(run("max_pool", {x}, f64({1, 1, 3}, {}), kPool) == Numbers{-1, -2, -2});
  // Position 2 wins the second window against its equal, position 3 the third.
  CHECK(run("max_pool_grad", {x, f64({1, 1, 3}, {1, 10, 100})}, f64({1, 1, 5}, {}), kPool) ==
        Numbers{1, 0, 10, 100, 0});
  const double nan = std::nan("");
  CHECK(std::isnan(run("max_pool", {f64({1, 1, 2}, {nan, 7})}, f64({1, 1, 1}, {}),
                       {{"kernel", Integers{2}}})[0]));
}

TEST_CASE("a maximum over nothing of a window is the neutral element") {
  const double lowest = -std::numeric_limits<double>::infinity();
  // Positions 0 and 1 of 5: the last window lies elsewhere.
  CHECK(run("max_pool", {f64({1, 1, 2}, {-1, -5})}, f64({1, 1, 3}, {}), kPool) ==
        Numbers{-1, -5, lowest});
}

TEST_CASE("a mean divides by the elements of the window, or by all its positions if told") {
  const TestOperand x = f64({1, 1, 5}, {2, 4, 6, 8, 10});
  Attributes attributes = kPool;
  CHECK(run("avg_pool", {x}, f64({1, 1, 3}, {}), attributes) == Numbers{3, 6, 9});
  attributes.set("count_padding", true);
  CHECK(run("avg_pool", {x}, f64({1, 1, 3}, {}), attributes) == Numbers{2, 6, 6});
  attributes.set("shape", Integers{1, 1, 5});
  CHECK(run("avg_pool_grad", {f64({1, 1, 3}, {3, 6, 9})}, f64({1, 1, 5}, {}), attributes) ==
        Numbers{1, 1 + 2, 2, 2 + 3, 3});
  attributes.set("count_padding", false);
  CHECK(run("avg_pool_grad", {f64({1, 1, 3}, {2, 6, 8})}, f64({1, 1, 5}, {}), attributes) ==
        Numbers{1, 1 + 2, 2, 2 + 4, 4});
  // A shard divides by the count of the global window: positions 0 and 1 of 5.
  CHECK(run("avg_pool", {f64({1, 1, 2}, {2, 4}, {0, 0, 0}, Shape{1, 1, 5})}, f64({1, 1, 3}, {}),
            kPool) == Numbers{3, 4.0 / 3, 0});
}

TEST_CASE("a pool without a stride steps by its kernel, in every dim") {
  const TestOperand x = f64({1, 1, 2, 4}, kOneToEight);
  const Attributes attributes{{"kernel", Integers{2, 2}}};
  CHECK(run("max_pool", {x}, f64({1, 1, 1, 2}, {}), attributes) == Numbers{6, 8});
  CHECK(run("avg_pool", {x}, f64({1, 1, 1, 2}, {}), attributes) == Numbers{3.5, 5.5});
}

}  // namespace
}  // namespace sextant::conv_kernels_test
