// Fast convolutions, pools and statistics against the reference: strides, padding, dilation,
// groups, boxes that hold a part of what a window sees, and images from one tile to many.
#include "backends/cpu/kernels/shared/kernel.h"
#include "tests/cpu/fast_agreement.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace sextant::fast_vision_kernels_test {
namespace {

using Integers = std::vector<std::int64_t>;

struct Case {
  Shape x, w, y;
  Attributes attributes = {};
  Integers x_offsets = {}, y_offsets = {};
};

// All three products of a convolution, overwriting and accumulating.
void check_conv(const Case& c) {
  CAPTURE(to_string(c.x));
  CAPTURE(to_string(c.w));
  const auto x = [&] {
    TestOperand operand = f32(c.x, 1);
    operand.offsets = c.x_offsets;
    return operand;
  };
  const auto y = [&](std::uint64_t stream) {
    TestOperand operand = f32(c.y, stream);
    operand.offsets = c.y_offsets;
    return operand;
  };
  // Partial sums of one after the other are larger than what is left of them: four times the terms.
  const std::int64_t depth = 4 * c.w.elements() / c.w[0], windows = 4 * c.y.elements() / c.y[1];
  for (const bool adds : {false, true}) {
    check_agrees("conv", c.attributes, depth,
                 [&](KernelCall& call) { call.input(x()).input(f32(c.w, 2)).output(y(3), adds); });
    check_agrees("conv_grad_input", c.attributes, c.w.elements(),
                 [&](KernelCall& call) { call.input(y(3)).input(f32(c.w, 2)).output(x(), adds); });
    check_agrees("conv_grad_weight", c.attributes, windows,
                 [&](KernelCall& call) { call.input(x()).input(y(3)).output(f32(c.w, 2), adds); });
  }
}

TEST_CASE("fast convolutions agree over strides, padding, dilation and groups") {
  check_conv({{2, 3, 9, 7}, {5, 3, 3, 3}, {2, 5, 9, 7}, {{"padding", Integers{1, 1}}}});
  check_conv({{2, 3, 10, 11},
              {4, 3, 3, 5},
              {2, 4, 5, 6},
              {{"padding", Integers{1, 2}}, {"stride", Integers{2, 2}}}});
  check_conv({{1, 4, 12, 13},
              {6, 2, 2, 3},
              {1, 6, 11, 3},
              {{"stride", Integers{1, 3}}, {"dilation", Integers{1, 2}}}});
  check_conv({{3, 6, 5, 5}, {6, 1, 3, 3}, {3, 6, 5, 5}, {{"padding", Integers{1, 1}}}});
  // Pointwise: x is its own columns, or every other of its positions.
  check_conv({{2, 5, 6, 4}, {7, 5, 1, 1}, {2, 7, 6, 4}});
  check_conv({{2, 5, 6, 5}, {7, 5, 1, 1}, {2, 7, 3, 3}, {{"stride", Integers{2, 2}}}});
}

TEST_CASE("fast convolutions agree in one and three dims") {
  check_conv({{2, 3, 40}, {4, 3, 5}, {2, 4, 18}, {{"stride", Integers{2}}}});
  check_conv({{2, 2, 4, 5, 6}, {3, 2, 2, 3, 3}, {2, 3, 3, 5, 6}, {{"padding", Integers{0, 1, 1}}}});
}

// Rows of more and less than a vector, one tile of several samples, several tiles of one sample,
// and padding that a window does not leave at all.
TEST_CASE("fast convolutions agree however the work is cut") {
  const Attributes same{{"padding", Integers{1, 1}}};
  check_conv({{9, 40, 2, 2}, {70, 40, 3, 3}, {9, 70, 2, 2}, same});
  check_conv({{1, 3, 70, 33}, {4, 3, 3, 3}, {1, 4, 70, 33}, same});
  check_conv({{1, 300, 9, 17}, {3, 300, 3, 3}, {1, 3, 9, 17}, same});
  check_conv({{1, 1, 2, 2}, {1, 1, 1, 1}, {1, 1, 8, 8}, {{"padding", Integers{3, 3}}}});
}

// A rank has rows 4 to 8 of x and columns 2 to 9, and computes windows that see more than that.
TEST_CASE("fast convolutions count what another rank holds as zero") {
  for (const Integers& y_offsets :
       {Integers{0, 0, 3, 1}, Integers{0, 0, 0, 0}, Integers{0, 0, 9, 9}})
    check_conv({{2, 3, 5, 8},
                {4, 3, 3, 3},
                {2, 4, 6, 7},
                {{"padding", Integers{1, 1}}},
                {0, 0, 4, 2},
                y_offsets});
  check_conv({{2, 3, 5, 8},
              {4, 3, 3, 3},
              {2, 4, 3, 4},
              {{"padding", Integers{1, 1}}, {"stride", Integers{2, 2}}},
              {0, 0, 4, 2},
              {0, 0, 2, 1}});
}

TEST_CASE("fast max pools agree, with ties, NaN and windows of padding alone") {
  const Attributes attributes{
      {"kernel", Integers{3, 3}}, {"stride", Integers{2, 2}}, {"padding", Integers{1, 1}}};
  const Shape whole{2, 3, 9, 7}, pooled{2, 3, 5, 4};
  const auto x = [&] {
    TestOperand operand = f32(whole, 1);
    for (double& value : operand.values) value = std::round(value);
    return operand;
  };
  check_agrees("max_pool", attributes, 0,
               [&](KernelCall& call) { call.input(x()).output(f32(pooled, 2)); });
  check_agrees("max_pool_grad", attributes, 4,
               [&](KernelCall& call) { call.input(x()).input(f32(pooled, 2)).output(x()); });
  // Of a rank that has no position of most windows.
  check_agrees("max_pool_grad", attributes, 4, [&](KernelCall& call) {
    TestOperand part = f32({2, 3, 1, 2}, 1);
    part.offsets = {0, 0, 4, 2};
    call.input(part).input(f32(pooled, 2)).output(part);
  });
  KernelCall call("max_pool", {{"kernel", Integers{2}}, {"stride", Integers{2}}});
  TestOperand with_nan = f32({1, 1, 6}, 1);
  with_nan.values = {1, NAN, NAN, 2, 5, 4};
  const auto y = call.input(with_nan).output(f32({1, 1, 3}, 2)).run(fast_kernels())[0];
  CHECK((std::isnan(y[0]) && std::isnan(y[1]) && y[2] == 5));
}

TEST_CASE("fast max pools agree where a rank has no sample or no row") {
  const Attributes attributes{
      {"kernel", Integers{3, 3}}, {"stride", Integers{2, 2}}, {"padding", Integers{1, 1}}};
  for (const auto& [x, y] : {std::pair(Shape{0, 3, 9, 7}, Shape{0, 3, 5, 4}),
                             std::pair(Shape{2, 3, 9, 7}, Shape{2, 3, 0, 4}),
                             std::pair(Shape{2, 3, 0, 7}, Shape{2, 3, 0, 4})})
    check_agrees("max_pool", attributes, 0,
                 [&](KernelCall& call) { call.input(f32(x, 1)).output(f32(y, 2)); });
  for (const auto& [x, y] : {std::pair(Shape{0, 3, 9, 7}, Shape{0, 3, 5, 4}),
                             std::pair(Shape{2, 3, 9, 7}, Shape{2, 3, 0, 4}),
                             std::pair(Shape{2, 3, 0, 7}, Shape{2, 3, 5, 4})})
    check_agrees("max_pool_grad", attributes, 0, [&](KernelCall& call) {
      call.input(f32(x, 1)).input(f32(y, 2)).output(f32(x, 3));
    });
}

// Of nothing there are no columns, so these are the reference's.
TEST_CASE("convolutions over a rank's part without rows are sums of nothing") {
  const TestOperand x{{{2, 3, 0, 8}, DType::kF32}, {}, {}}, w = f32({4, 3, 3, 3}, 2),
                                                            y = f32({2, 4, 6, 7}, 3);
  const Attributes attributes{{"padding", Integers{1, 1}}};
  const KernelTable reference = reference_kernels(), fast = fast_kernels();
  for (const bool adds : {false, true}) {
    KernelCall forward("conv", attributes), of_x("conv_grad_input", attributes),
        of_w("conv_grad_weight", attributes);
    forward.input(x).input(w).output(y, adds);
    of_x.input(y).input(w).output(x, adds);
    of_w.input(x).input(y).output(w, adds);
    const auto left = [&](const TestOperand& before) {
      std::vector<double> values(before.values.size());
      for (std::size_t i = 0; adds && i < values.size(); ++i)
        values[i] = static_cast<double>(static_cast<float>(before.values[i]));
      return values;
    };
    for (const KernelCall* call : {&forward, &of_x, &of_w})
      CHECK((call->kernel(fast) == call->kernel(reference)));
    CHECK(forward.run(fast)[0] == left(y));
    CHECK(of_x.run(fast)[0].empty());
    CHECK(of_w.run(fast)[0] == left(w));
  }
}

TEST_CASE("fast pieces of batch norm agree, with sums of weights or of their own") {
  for (const Shape& shape : {Shape{3, 5, 4, 7}, Shape{2, 40, 33}, Shape{1, 2, 2}}) {
    const Shape channels{shape[1]};
    Integers dims{0};
    for (std::size_t dim = 2; dim < shape.rank(); ++dim)
      dims.push_back(static_cast<std::int64_t>(dim));
    const auto statistic = [&](std::uint64_t stream) {
      TestOperand operand = f32(channels, stream);
      for (double& value : operand.values) value = 0.5 + std::abs(value);
      return operand;
    };
    const std::int64_t terms = shape.elements() / shape[1];
    for (const bool adds : {false, true}) {
      for (const char* kind : {"reduce_sum", "reduce_mean"})
        check_agrees(kind, {{"dims", dims}}, terms, [&](KernelCall& call) {
          call.input(f32(shape, 1)).output(f32(channels, 2), adds);
        });
      check_agrees("reduce_squares", {{"dims", dims}}, 4 * terms, [&](KernelCall& call) {
        call.input(f32(shape, 1)).input(statistic(2)).output(f32(channels, 3), adds);
      });
      check_agrees("normalize_grad_weight", {{"dims", dims}, {"weight_dims", Integers{1}}},
                   20 * terms, [&](KernelCall& call) {
                     call.input(f32(shape, 1)).input(f32(channels, 2)).input(statistic(3));
                     call.input(f32(shape, 4));
                     call.output(f32(channels, 5), adds).output(f32(channels, 6), adds);
                   });
    }
    check_agrees("normalize", {{"dims", dims}, {"weight_dims", Integers{1}}}, 20,
                 [&](KernelCall& call) {
                   call.input(f32(shape, 1)).input(f32(channels, 2)).input(statistic(3));
                   call.input(f32(channels, 4)).input(f32(channels, 5)).output(f32(shape, 6));
                 });
    for (const char* sums : {"of_weights", "own"})
      check_agrees("normalize_grad_input",
                   {{"dims", dims}, {"weight_dims", Integers{1}}, {"sums", std::string(sums)}}, 50,
                   [&](KernelCall& call) {
                     call.input(f32(shape, 1)).input(f32(channels, 2)).input(statistic(3));
                     call.input(f32(channels, 4)).input(f32(channels, 5)).input(f32(channels, 6));
                     call.input(f32(shape, 7)).output(f32(shape, 8));
                   });
  }
}

TEST_CASE("fast sums over rows and over positions agree, and so does what undoes them") {
  const Shape shape{6, 5, 7};
  const std::vector<std::pair<Integers, Shape>> reductions{
      {{0}, {5, 7}}, {{1, 2}, {6}}, {{0, 1}, {7}}, {{0, 1, 2}, {}}};
  for (const auto& [dims, result] : reductions) {
    check_agrees("reduce_mean", {{"dims", dims}}, 42,
                 [&](KernelCall& call) { call.input(f32(shape, 1)).output(f32(result, 2)); });
    check_agrees("expand", {{"dims", dims}}, 0,
                 [&](KernelCall& call) { call.input(f32(result, 1)).output(f32(shape, 2)); });
  }
}

// Its variance is then exactly zero, which a norm without epsilon looks at.
TEST_CASE("the fast mean of a constant is that constant") {
  KernelCall call("reduce_mean", {{"dims", Integers{0, 2}}});
  TestOperand x = f32({7, 2, 131}, 1);
  for (std::size_t i = 0; i < x.values.size(); ++i)
    x.values[i] = static_cast<double>(i / 131 % 2 == 0 ? 0.1F : -1e10F);
  const auto mean = call.input(x).output(f32({2}, 2)).run(fast_kernels())[0];
  CHECK(mean[0] == static_cast<double>(0.1F));
  CHECK(mean[1] == static_cast<double>(-1e10F));
}

}  // namespace
}  // namespace sextant::fast_vision_kernels_test
