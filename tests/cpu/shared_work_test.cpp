// Fast kernels whose work is large enough for several pieces, the last of them odd: on a team they
// leave the bits that one thread leaves, and agree with the reference.
#include "backends/cpu/kernels/shared/kernel.h"
#include "tests/cpu/fast_agreement.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sextant::shared_work_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t kPieces = 4;
// Of loops over elements, of 16,384 each, and of sums of gradients, of 65,536 each.
constexpr std::int64_t kElements = 4 * 16384 + 37, kGradients = 3 * 65536 + 37;
// As many, as rows that no piece has evenly.
const Shape kRows{331, 201};

TestOperand positive(const Shape& shape, std::uint64_t stream) {
  TestOperand operand = f32(shape, stream);
  for (double& value : operand.values) value = 0.5 + std::abs(value);
  return operand;
}

TEST_CASE("a team leaves the same bits: element-wise kernels") {
  const Shape shape{kElements};
  const Attributes attributes{{"approximate", "tanh"}, {"factor", -1.5}};
  for (const char* kind : {"gelu", "silu", "relu", "scale", "reshape"})
    check_agrees(
        kind, attributes, 30,
        [&](KernelCall& call) { call.input(f32(shape, 1)).output(f32(shape, 2)); }, kPieces);
  for (const char* kind : {"gelu_grad", "silu_grad", "relu_grad", "add", "mul"})
    check_agrees(
        kind, attributes, 30,
        [&](KernelCall& call) {
          call.input(f32(shape, 1)).input(f32(shape, 2)).output(f32(shape, 3));
        },
        kPieces);
  check_agrees(
      "bias_add", {}, 1,
      [&](KernelCall& call) {
        call.input(f32(kRows, 1)).input(f32({kRows[1]}, 2)).output(f32(kRows, 3));
      },
      kPieces);
  check_agrees(
      "reduce_to_bias", {{"rank", std::int64_t{1}}}, 5,
      [&](KernelCall& call) {
        call.input(f32({5, 1061}, 1)).output(f32({1061}, 2), true);
      },
      kPieces);
}

TEST_CASE("a team leaves the same bits: norms of rows and the gradients of their weights") {
  const auto row = [](std::uint64_t stream) { return f32({kRows[1]}, stream); };
  const auto statistic = [](std::uint64_t stream) { return positive({kRows[0]}, stream); };
  const Attributes attributes{{"epsilon", 1e-5}};
  check_agrees(
      "layer_norm", attributes, 4000,
      [&](KernelCall& call) {
        call.input(f32(kRows, 1)).input(row(2)).input(row(3));
        call.output(f32(kRows, 4)).output(statistic(5)).output(statistic(6));
      },
      kPieces);
  check_agrees(
      "rms_norm", attributes, 4000,
      [&](KernelCall& call) {
        call.input(f32(kRows, 1)).input(row(2)).output(f32(kRows, 4)).output(statistic(5));
      },
      kPieces);
  check_agrees(
      "layer_norm_grad_input", {}, 10000,
      [&](KernelCall& call) {
        call.input(f32(kRows, 1)).input(row(2)).input(statistic(3)).input(statistic(4));
        call.input(f32(kRows, 7)).output(f32(kRows, 8));
      },
      kPieces);
  check_agrees(
      "rms_norm_grad_input", {}, 10000,
      [&](KernelCall& call) {
        call.input(f32(kRows, 1)).input(row(2)).input(statistic(3));
        call.input(f32(kRows, 7)).output(f32(kRows, 8));
      },
      kPieces);
  const Shape wide{5, 1061}, weights{1061};
  const TestOperand mean = f32({5}, 3), rstd = positive({5}, 4);
  check_agrees(
      "layer_norm_grad_weight", {}, 50,
      [&](KernelCall& call) {
        call.input(f32(wide, 1)).input(mean).input(rstd).input(f32(wide, 5));
        call.output(f32(weights, 6)).output(f32(weights, 7));
      },
      kPieces);
  check_agrees(
      "rms_norm_grad_weight", {}, 50,
      [&](KernelCall& call) {
        call.input(f32(wide, 1)).input(rstd).input(f32(wide, 5)).output(f32(weights, 6), true);
      },
      kPieces);
}

TEST_CASE("a team leaves the same bits: the loss") {
  const Shape each{kRows[0]};
  std::vector<double> ids;
  for (std::int64_t i = 0; i < kRows[0]; ++i) ids.push_back(static_cast<double>(i * 7 % kRows[1]));
  const TestOperand labels{{each, DType::kI32}, ids, {}},
      max{{each, DType::kF32}, std::vector<double>(ids.size(), 4.0), {}};
  check_agrees(
      "row_max", {}, 0, [&](KernelCall& call) { call.input(f32(kRows, 1)).output(f32(each, 2)); },
      kPieces);
  check_agrees(
      "row_sum_exp", {}, kRows[1],
      [&](KernelCall& call) { call.input(f32(kRows, 1)).input(max).output(f32(each, 2)); },
      kPieces);
  check_agrees(
      "cross_entropy_grad", {}, 10,
      [&](KernelCall& call) {
        call.input(f32(kRows, 1)).input(max).input(positive(each, 3)).input(labels);
        call.input({{Shape{}, DType::kF32}, {2}, {}}).output(f32(kRows, 2));
      },
      kPieces);
}

TEST_CASE("a team leaves the same bits: pools, batch norm, sums and what undoes them") {
  const Attributes pool{
      {"kernel", Integers{3, 3}}, {"stride", Integers{2, 2}}, {"padding", Integers{1, 1}}};
  const Shape images{3, 5, 67, 67}, pooled{3, 5, 34, 34};
  check_agrees(
      "max_pool", pool, 0,
      [&](KernelCall& call) { call.input(f32(images, 1)).output(f32(pooled, 2)); }, kPieces);
  check_agrees(
      "max_pool_grad", pool, 4,
      [&](KernelCall& call) {
        call.input(f32(images, 1)).input(f32(pooled, 2)).output(f32(images, 3));
      },
      kPieces);

  const Shape channels{5};
  const Attributes norm{{"dims", Integers{0, 2, 3}}, {"weight_dims", Integers{1}}};
  const std::int64_t terms = images.elements() / channels[0];
  check_agrees(
      "reduce_mean", norm, terms,
      [&](KernelCall& call) { call.input(f32(images, 1)).output(f32(channels, 2)); }, kPieces);
  check_agrees(
      "reduce_squares", norm, 4 * terms,
      [&](KernelCall& call) {
        call.input(f32(images, 1)).input(f32(channels, 2)).output(f32(channels, 3));
      },
      kPieces);
  check_agrees(
      "normalize", norm, 20,
      [&](KernelCall& call) {
        call.input(f32(images, 1)).input(f32(channels, 2)).input(positive(channels, 3));
        call.input(f32(channels, 4)).input(f32(channels, 5)).output(f32(images, 6));
      },
      kPieces);
  check_agrees(
      "normalize_grad_weight", norm, 20 * terms,
      [&](KernelCall& call) {
        call.input(f32(images, 1)).input(f32(channels, 2)).input(positive(channels, 3));
        call.input(f32(images, 4)).output(f32(channels, 5)).output(f32(channels, 6));
      },
      kPieces);

  const Shape wide{9, 2100}, tall{40, 1701};
  check_agrees(
      "reduce_sum", {{"dims", Integers{0}}}, 9,
      [&](KernelCall& call) { call.input(f32(wide, 1)).output(f32({wide[1]}, 2), true); }, kPieces);
  struct Expansion {
    Integers dims;
    Shape from, to;
  };
  for (const Expansion& c : {Expansion{{0}, {tall[1]}, tall}, Expansion{{1}, {kRows[0]}, kRows},
                             Expansion{{0}, {}, {kElements}}})
    check_agrees(
        "expand", {{"dims", c.dims}}, 0,
        [&](KernelCall& call) { call.input(f32(c.from, 1)).output(f32(c.to, 2)); }, kPieces);
}

TEST_CASE("a team leaves the same bits: updates of parameters") {
  const Shape shape{kElements};
  const TestOperand scale{{{2}, DType::kF64}, {1.0 / 17.0, 1.0}, {}};
  const TestOperand count{{Shape{}, DType::kI64}, {4}, {}};
  const Attributes attributes{{"learning_rate", 0.01}, {"beta1", 0.9},        {"beta2", 0.95},
                              {"epsilon", 1e-8},       {"weight_decay", 0.1}, {"momentum", 0.9}};
  for (const DType dtype : {DType::kF32, DType::kBF16})
    check_agrees(
        "adamw", attributes, 10,
        [&](KernelCall& call) {
          TestOperand gradient = f32(shape, 1);
          gradient.type.dtype = dtype;
          call.input(gradient).input(scale).output(f32(shape, 2)).output(f32(shape, 3));
          call.output(positive(shape, 4)).output(count);
        },
        kPieces);
  check_agrees(
      "momentum", attributes, 10,
      [&](KernelCall& call) {
        call.input(f32(shape, 1)).input(scale).output(f32(shape, 2)).output(f32(shape, 3));
        call.output(count);
      },
      kPieces);
  check_agrees(
      "sgd", attributes, 10,
      [&](KernelCall& call) {
        call.input(f32(shape, 1)).input(scale).output(f32(shape, 2)).output(count);
      },
      kPieces);
}

// Infinities in the first, a middle and the odd piece; none in the others.
TEST_CASE("a team leaves the same bits: squares of gradients, finite or not") {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    for (const bool is_finite : {true, false})
      check_agrees(
          "gradient_stats", {}, 0,
          [&](KernelCall& call) {
            TestOperand gradient = f32({kGradients}, 1);
            gradient.type.dtype = dtype;
            if (!is_finite)
              for (const std::size_t at :
                   {std::size_t{5}, std::size_t{150'000}, gradient.values.size() - 1})
                gradient.values[at] = std::numeric_limits<double>::infinity();
            call.input(gradient).output({{{2}, DType::kF64}, {}, {}});
          },
          kPieces);
}

// Four pieces from 1,024 rows or columns and 128 MFLOP on. By rows and by columns, each with one of
// the ways in which w may lie: the reference takes longer than all the rest of this file.
TEST_CASE("a team leaves the same bits: matrix products by rows and by columns") {
  constexpr std::int64_t kLong = 1031, kShort = 251, kDepth = 249;
  struct Case {
    std::int64_t m, n;
    bool transposed;
  };
  for (const auto& [m, n, transposed] : {Case{kLong, kShort, false}, Case{kShort, kLong, true}}) {
    const Shape w = transposed ? Shape{n, kDepth} : Shape{kDepth, n};
    check_agrees(
        "matmul", {{"transpose_w", transposed}}, 4 * kDepth,
        [&, m = m, n = n](KernelCall& call) {
          call.input(f32({m, kDepth}, 1)).input(f32(w, 2)).output(f32({m, n}, 3));
        },
        kPieces);
  }
  for (const auto& [m, n, transposed] : {Case{kLong, kShort, true}, Case{kShort, kLong, false}}) {
    const Shape dw = transposed ? Shape{n, m} : Shape{m, n};
    check_agrees(
        "matmul_grad_weight", {{"transpose_w", transposed}}, 4 * kDepth,
        [&, m = m, n = n](KernelCall& call) {
          call.input(f32({kDepth, m}, 1)).input(f32({kDepth, n}, 2)).output(f32(dw, 3), true);
        },
        kPieces);
  }
  for (const bool transposed : {false, true})
    check_agrees(
        "batch_matmul", {{"transpose_x", transposed}, {"transpose_w", transposed}}, 31,
        [&](KernelCall& call) {
          call.input(f32(transposed ? Shape{5, 31, 17} : Shape{5, 17, 31}, 1));
          call.input(f32(transposed ? Shape{5, 23, 31} : Shape{5, 31, 23}, 2));
          call.output(f32({5, 17, 23}, 3));
        },
        kPieces);
}

TEST_CASE("a team leaves the same bits: attention and convolutions") {
  const Shape q{2, 131, 3, 5}, rows{2, 131, 3};
  check_agrees(
      "attention", {}, q[1],
      [&](KernelCall& call) {
        call.input(f32(q, 1)).input(f32(q, 2)).input(f32(q, 3)).output(f32(q, 4));
        call.output(f32(rows, 5));
      },
      kPieces);
  const Attributes same{{"padding", Integers{1, 1}}};
  const Shape x{5, 8, 33, 35}, w{6, 4, 3, 3}, y{5, 6, 33, 35};
  check_agrees(
      "conv", same, 4 * 36,
      [&](KernelCall& call) { call.input(f32(x, 1)).input(f32(w, 2)).output(f32(y, 3)); }, kPieces);
  check_agrees(
      "conv_grad_input", same, w.elements(),
      [&](KernelCall& call) { call.input(f32(y, 1)).input(f32(w, 2)).output(f32(x, 3)); }, kPieces);
  const Shape deep{2, 64, 9, 9}, deep_w{16, 64, 3, 3}, deep_y{2, 16, 9, 9};
  check_agrees(
      "conv_grad_weight", same, 4 * 162,
      [&](KernelCall& call) {
        call.input(f32(deep, 1)).input(f32(deep_y, 2)).output(f32(deep_w, 3));
      },
      kPieces);
}

}  // namespace
}  // namespace sextant::shared_work_test
