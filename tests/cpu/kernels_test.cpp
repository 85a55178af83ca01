// Kernels against numbers worked out by hand, in both tables and in every floating type they fit.
#include "backends/cpu/kernels/shared/kernel.h"
#include "core/base/error.h"
#include "core/operators/layers/rotary_attributes.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>
#include <functional>

namespace sextant::kernels_test {
namespace {

// Runs `check` for both tables and for f64 and f32; `tolerance` is what the type can promise for
// values around 1: a few units in the last place, more for chains of operations.
void in_both_tables(const std::function<void(const KernelTable&, DType, double)>& check) {
  const KernelTable reference = reference_kernels();
  const KernelTable fast = fast_kernels();
  for (const KernelTable* table : {&reference, &fast}) {
    check(*table, DType::kF64, 1e-12);
    check(*table, DType::kF32, 1e-5);
  }
}

void check_near(const std::vector<double>& found, const std::vector<double>& expected,
                double tolerance) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK(found[i] == doctest::Approx(expected[i]).epsilon(tolerance));
}

TestOperand scalar(DType dtype, double value) { return {{Shape{}, dtype}, {value}, {}}; }

TEST_CASE("matmul multiplies rows by columns, from either storage of the weight") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    // [1 2 3; 4 5 6] [1 0; 0 1; 2 -1] = [1+6, 2-3; 4+12, 5-6] = [7 -1; 16 -1]
    const TestOperand x{{{2, 3}, dtype}, {1, 2, 3, 4, 5, 6}, {}};
    const TestOperand w{{{3, 2}, dtype}, {1, 0, 0, 1, 2, -1}, {}};
    const TestOperand w_transposed{{{2, 3}, dtype}, {1, 0, 2, 0, 1, -1}, {}};
    const std::vector<double> expected{7, -1, 16, -1};
    CHECK(KernelCall("matmul", {})
              .input(x)
              .input(w)
              .output({{{2, 2}, dtype}, {}, {}})
              .run(table)[0] == expected);
    CHECK(KernelCall("matmul", {{"transpose_w", true}})
              .input(x)
              .input(w_transposed)
              .output({{{2, 2}, dtype}, {}, {}})
              .run(table)[0] == expected);
  });
}

TEST_CASE("a bias on one of the ranks that split the inner dim counts once") {  // G14
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    // Rank 0 holds x[0..1] and the first two columns of W: [1+4, 5+12, 9+20] = [5, 17, 29];
    // rank 1 the rest: [9+16, 21+32, 33+48] = [25, 53, 81]. Sum + bias = [130, 270, 410].
    const auto part = [&](std::vector<double> x, std::vector<double> w) {
      return KernelCall("matmul", {{"transpose_w", true}})
          .input({{{1, 2}, dtype}, std::move(x), {}})
          .input({{{3, 2}, dtype}, std::move(w), {}})
          .output({{{1, 3}, dtype}, {}, {}})
          .run(table)[0];
    };
    const std::vector<double> first = part({1, 2}, {1, 2, 5, 6, 9, 10});
    const std::vector<double> second = part({3, 4}, {3, 4, 7, 8, 11, 12});
    CHECK(first == std::vector<double>{5, 17, 29});
    CHECK(second == std::vector<double>{25, 53, 81});
    const auto sum = KernelCall("add", {})
                         .input({{{1, 3}, dtype}, first, {}})
                         .input({{{1, 3}, dtype}, second, {}})
                         .output({{{1, 3}, dtype}, {}, {}})
                         .run(table)[0];
    CHECK(KernelCall("bias_add", {})
              .input({{{1, 3}, dtype}, sum, {}})
              .input({{{3}, dtype}, {100, 200, 300}, {}})
              .output({{{1, 3}, dtype}, {}, {}})
              .run(table)[0] == std::vector<double>{130, 270, 410});
  });
}

TEST_CASE("the weight gradient sums over rows and adds to what is there when it accumulates") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    // x = [1 2; 3 4; 5 6], dy = [1; 0; 2]: dw = x^T dy = [1+10; 2+12] = [11; 14]
    for (const bool transposed : {false, true}) {
      KernelCall call("matmul_grad_weight", {{"transpose_w", transposed}});
      call.input({{{3, 2}, dtype}, {1, 2, 3, 4, 5, 6}, {}})
          .input({{{3, 1}, dtype}, {1, 0, 2}, {}})
          .output({{transposed ? Shape{1, 2} : Shape{2, 1}, dtype}, {100, 200}, {}}, true);
      CHECK(call.run(table)[0] == std::vector<double>{111, 214});
      CHECK(call.run(table)[0] == std::vector<double>{122, 228});
    }
  });
}

TEST_CASE("products over nothing are zero and empty outputs are no work") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    CHECK(KernelCall("matmul", {})
              .input({{{2, 0}, dtype}, {}, {}})
              .input({{{0, 3}, dtype}, {}, {}})
              .output({{{2, 3}, dtype}, {9, 9, 9, 9, 9, 9}, {}})
              .run(table)[0] == std::vector<double>(6, 0.0));
    CHECK(KernelCall("matmul", {})
              .input({{{0, 2}, dtype}, {}, {}})
              .input({{{2, 3}, dtype}, {}, {}})
              .output({{{0, 3}, dtype}, {}, {}})
              .run(table)[0]
              .empty());
    CHECK(KernelCall("matmul_grad_weight", {})
              .input({{{0, 2}, dtype}, {}, {}})
              .input({{{0, 1}, dtype}, {}, {}})
              .output({{{2, 1}, dtype}, {7, 7}, {}})
              .run(table)[0] == std::vector<double>{0, 0});
  });
}

TEST_CASE("layer norm uses the biased variance") {  // G20
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // [1 2 3 4]: mean 2.5, variance (2.25 + 0.25 + 0.25 + 2.25) / 4 = 1.25, rstd 0.894427191;
    // y = (x - 2.5) 0.894427191.
    const double rstd = 1.0 / std::sqrt(1.25);
    const auto results = KernelCall("layer_norm", {{"epsilon", 0.0}})
                             .input({{{1, 4}, dtype}, {1, 2, 3, 4}, {}})
                             .input({{{4}, dtype}, {1, 1, 1, 1}, {}})
                             .input({{{4}, dtype}, {0, 0, 0, 0}, {}})
                             .output({{{1, 4}, dtype}, {}, {}})
                             .output({{{1}, dtype}, {}, {}})
                             .output({{{1}, dtype}, {}, {}})
                             .run(table);
    check_near(results[0], {-1.5 * rstd, -0.5 * rstd, 0.5 * rstd, 1.5 * rstd}, tolerance);
    CHECK(results[0][0] == doctest::Approx(-1.341641).epsilon(1e-6));
    check_near(results[1], {2.5}, tolerance);
    check_near(results[2], {rstd}, tolerance);
  });
}

TEST_CASE("RMS norm divides by the root of the mean square") {  // G20
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // [3 4 0 0]: mean square 25/4, root 2.5: y = [1.2 1.6 0 0], times gamma [1 2 3 4].
    const auto results = KernelCall("rms_norm", {{"epsilon", 0.0}})
                             .input({{{4}, dtype}, {3, 4, 0, 0}, {}})
                             .input({{{4}, dtype}, {1, 2, 3, 4}, {}})
                             .output({{{4}, dtype}, {}, {}})
                             .output({{{}, dtype}, {}, {}})
                             .run(table);
    check_near(results[0], {1.2, 3.2, 0, 0}, tolerance);
    check_near(results[1], {0.4}, tolerance);
  });
}

// Every element is its mean, so the row says nothing: it becomes beta, and nothing depends on it.
TEST_CASE("a constant row without epsilon becomes beta, and its gradients are zero") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    // 0.1 is no float: a mean that is rounded would differ from it, and rstd would be 1 / rounding.
    for (const double constant : {2.5, 0.1, -1e-3, 0.0}) {
      const std::vector<double> row(45, constant), ones(45, 1.0), beta(45, 3.0), zeros(45, 0.0);
      const TestOperand x{{{45}, dtype}, row, {}}, gamma{{{45}, dtype}, ones, {}},
          vector{{{45}, dtype}, {}, {}}, scalar{{{}, dtype}, {}, {}};
      const auto forward = KernelCall("layer_norm", {{"epsilon", 0.0}})
                               .input(x)
                               .input(gamma)
                               .input({{{45}, dtype}, beta, {}})
                               .output(vector)
                               .output(scalar)
                               .output(scalar)
                               .run(table);
      CHECK(forward[0] == beta);
      CHECK(forward[2] == std::vector<double>{0.0});
      const TestOperand mean{{{}, dtype}, forward[1], {}}, rstd{{{}, dtype}, forward[2], {}};
      CHECK(KernelCall("layer_norm_grad_input", {})
                .input(x)
                .input(gamma)
                .input(mean)
                .input(rstd)
                .input(gamma)
                .output(vector)
                .run(table)[0] == zeros);
      CHECK(KernelCall("layer_norm_grad_weight", {})
                .input(x)
                .input(mean)
                .input(rstd)
                .input(gamma)
                .output(vector)
                .output(vector)
                .run(table) == std::vector<std::vector<double>>{zeros, ones});
    }
    const std::vector<double> zeros(8, 0.0);
    const TestOperand x{{{8}, dtype}, zeros, {}}, gamma{{{8}, dtype}, {1, 2, 3, 4, 5, 6, 7, 8}, {}},
        vector{{{8}, dtype}, {}, {}}, scalar{{{}, dtype}, {}, {}};
    const auto forward = KernelCall("rms_norm", {{"epsilon", 0.0}})
                             .input(x)
                             .input(gamma)
                             .output(vector)
                             .output(scalar)
                             .run(table);
    CHECK(forward == std::vector<std::vector<double>>{zeros, {0.0}});
    const TestOperand rstd{{{}, dtype}, {0.0}, {}};
    CHECK(KernelCall("rms_norm_grad_input", {})
              .input(x)
              .input(gamma)
              .input(rstd)
              .input(gamma)
              .output(vector)
              .run(table)[0] == zeros);
    CHECK(KernelCall("rms_norm_grad_weight", {})
              .input(x)
              .input(rstd)
              .input(gamma)
              .output(vector)
              .run(table)[0] == zeros);
  });
}

TEST_CASE("gelu and silu have the values and slopes of their formulas") {
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    const TestOperand x{{{3}, dtype}, {0, 1, -1}, {}};
    const TestOperand dy{{{3}, dtype}, {2, 2, 2}, {}};
    const TestOperand y{{{3}, dtype}, {}, {}};
    // Phi(1) = 0.841344746068543, density(1) = 0.241970724519143.
    const double phi = 0.841344746068543, density = 0.241970724519143;
    check_near(KernelCall("gelu", {{"approximate", "none"}}).input(x).output(y).run(table)[0],
               {0, phi, -(1 - phi)}, tolerance);
    check_near(KernelCall("gelu_grad", {{"approximate", "none"}})
                   .input(x)
                   .input(dy)
                   .output(y)
                   .run(table)[0],
               {1, 2 * (phi + density), 2 * (1 - phi - density)}, tolerance);
    // tanh form at 1: argument 0.797884560802865 * 1.044715, tanh of it t;
    // value (1 + t) / 2, slope (1 + t) / 2 + (1 - t^2) / 2 * 0.797884560802865 * 1.134145.
    const double root = 0.797884560802865;
    const double t = std::tanh(root * 1.044715);
    const double slope = 0.5 * (1 + t) + 0.5 * (1 - t * t) * root * 1.134145;
    check_near(KernelCall("gelu", {{"approximate", "tanh"}}).input(x).output(y).run(table)[0],
               {0, 0.5 * (1 + t), -0.5 * (1 - t)}, tolerance);
    check_near(KernelCall("gelu_grad", {{"approximate", "tanh"}})
                   .input(x)
                   .input(dy)
                   .output(y)
                   .run(table)[0],
               {1, 2 * slope, 2 * (1 - slope)}, tolerance);
    // sigmoid(1) = 0.731058578630005; slope s (1 + (1 - s)).
    const double s = 0.731058578630005;
    check_near(KernelCall("silu", {}).input(x).output(y).run(table)[0], {0, s, -(1 - s)},
               tolerance);
    check_near(KernelCall("silu_grad", {}).input(x).input(dy).output(y).run(table)[0],
               {1, 2 * s * (2 - s), 2 * (1 - s) * (1 - s)}, tolerance);
  });
}

TEST_CASE("a bias is added to each row and its gradient is the sum of the rows") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    // Positions [2, 2] repeated over a batch of 2.
    const TestOperand x{{{2, 2, 2}, dtype}, {1, 2, 3, 4, 5, 6, 7, 8}, {}};
    const TestOperand bias{{{2, 2}, dtype}, {10, 20, 30, 40}, {}};
    CHECK(KernelCall("bias_add", {})
              .input(x)
              .input(bias)
              .output({{{2, 2, 2}, dtype}, {}, {}})
              .run(table)[0] == std::vector<double>{11, 22, 33, 44, 15, 26, 37, 48});
    CHECK(KernelCall("reduce_to_bias", {{"rank", std::int64_t{2}}})
              .input(x)
              .output({{{2, 2}, dtype}, {100, 0, 0, 0}, {}}, true)
              .run(table)[0] == std::vector<double>{106, 8, 10, 12});
    CHECK(KernelCall("reduce_to_bias", {{"rank", std::int64_t{1}}})
              .input(x)
              .output({{{2}, dtype}, {}, {}})
              .run(table)[0] == std::vector<double>{16, 20});
  });
}

TEST_CASE("an embedding serves each id from exactly one shard") {  // G26
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    // Row v = [v, 10 v], V = 10 over 4 ranks: 3, 3, 2, 2 rows from 0, 3, 6, 8.
    const std::vector<std::pair<std::int64_t, std::int64_t>> parts{{0, 3}, {3, 3}, {6, 2}, {8, 2}};
    const TestOperand ids{{{4}, DType::kI32}, {0, 3, 9, 9}, {}};
    std::vector<double> sum(8, 0.0);
    std::vector<double> gradient;
    for (const auto& [first, rows] : parts) {
      std::vector<double> values;
      for (std::int64_t v = first; v < first + rows; ++v) {
        values.push_back(static_cast<double>(v));
        values.push_back(static_cast<double>(10 * v));
      }
      const auto y = KernelCall("embedding", {})
                         .input(ids)
                         .input({{{rows, 2}, dtype}, values, {first, 0}, Shape{10, 2}})
                         .output({{{4, 2}, dtype}, {}, {}})
                         .run(table)[0];
      for (std::size_t i = 0; i < y.size(); ++i) sum[i] += y[i];
      const auto part = KernelCall("embedding_grad", {{"vocab", std::int64_t{10}}})
                            .input(ids)
                            .input({{{4, 2}, dtype}, std::vector<double>(8, 1.0), {}})
                            .output({{{rows, 2}, dtype}, {}, {first, 0}, Shape{10, 2}})
                            .run(table)[0];
      gradient.insert(gradient.end(), part.begin(), part.end());
    }
    CHECK(sum == std::vector<double>{0, 0, 3, 30, 9, 90, 9, 90});
    std::vector<double> expected(20, 0.0);
    for (const std::size_t row : {0U, 3U, 9U}) {
      const double count = row == 9 ? 2 : 1;
      expected[2 * row] = expected[2 * row + 1] = count;
    }
    CHECK(gradient == expected);
  });
}

// Softmax cross-entropy of logits split into parts of classes, assembled as the words say:
// maximum of the maxima, sum of the sums, sum of what was picked.
struct SplitLoss {
  double max = 0, sum = 0, picked = 0;
};

SplitLoss split_loss(const KernelTable& table, DType dtype,
                     const std::vector<std::vector<double>>& parts, double label) {
  SplitLoss loss{-INFINITY, 0, 0};
  const TestOperand row{{{1}, dtype}, {}, {}};
  const TestOperand labels{{{1}, DType::kI32}, {label}, {}};
  std::int64_t first = 0;
  std::vector<TestOperand> shards;
  for (const std::vector<double>& part : parts) {
    const auto classes = static_cast<std::int64_t>(part.size());
    shards.push_back({{{1, classes}, dtype}, part, {0, first}});
    first += classes;
  }
  for (const TestOperand& shard : shards)
    loss.max =
        std::max(loss.max, KernelCall("row_max", {}).input(shard).output(row).run(table)[0][0]);
  for (const TestOperand& shard : shards) {
    const TestOperand max{{{1}, dtype}, {loss.max}, {}};
    loss.sum += KernelCall("row_sum_exp", {}).input(shard).input(max).output(row).run(table)[0][0];
    loss.picked += KernelCall("pick", {}).input(shard).input(labels).output(row).run(table)[0][0];
  }
  return loss;
}

TEST_CASE("the loss does not depend on how the classes are split, nor on empty shards") {  // G24
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // V = 3, logits [1 2 3], label 2: log(e^-2 + e^-1 + 1) = 0.407606.
    for (const auto& parts : std::vector<std::vector<std::vector<double>>>{
             {{1, 2, 3}}, {{1, 2}, {3}}, {{1}, {2}, {3}, {}}}) {
      const SplitLoss loss = split_loss(table, dtype, parts, 2);
      const auto results = KernelCall("cross_entropy", {})
                               .input({{{1, 3}, dtype}, {1, 2, 3}, {}})
                               .input({{{1}, dtype}, {loss.max}, {}})
                               .input({{{1}, dtype}, {loss.sum}, {}})
                               .input({{{1}, dtype}, {loss.picked}, {}})
                               .input({{{1}, DType::kI32}, {2}, {}})
                               .output(scalar(dtype, 0))
                               .output(scalar(dtype, 0))
                               .run(table);
      CHECK(results[0][0] ==
            doctest::Approx(std::log(std::exp(-2.0) + std::exp(-1.0) + 1)).epsilon(tolerance));
      CHECK(results[0][0] == doctest::Approx(0.407606).epsilon(1e-5));
      CHECK(results[1][0] == 1.0);
    }
  });
}

TEST_CASE("softmax over large logits has no infinities") {  // G21
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // [1000 1001 999 1001]: maximum 1001, sum e^-1 + 1 + e^-2 + 1.
    const SplitLoss loss = split_loss(table, dtype, {{1000, 1001}, {999, 1001}}, 1);
    CHECK(loss.max == 1001);
    CHECK(loss.sum == doctest::Approx(std::exp(-1.0) + std::exp(-2.0) + 2).epsilon(tolerance));
    CHECK(1 / loss.sum == doctest::Approx(0.399486).epsilon(1e-5));
  });
}

// The rank has rows or classes 4 to 6 of 10.
TEST_CASE("an id that no rank has a row for is an error of every rank that looks it up") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    const TestOperand part{{{3, 2}, dtype}, {}, {4, 0}, Shape{10, 2}},
        rows{{{2, 2}, dtype}, {}, {}};
    const auto look_up = [&](double id, DType wide) {
      const TestOperand ids{{{2}, wide}, {0, id}, {}};
      KernelCall("embedding", {}).input(ids).input(part).output(rows).run(table);
      KernelCall("embedding_grad", {{"vocab", std::int64_t{10}}})
          .input(ids)
          .input(rows)
          .output(part)
          .run(table);
    };
    for (const DType wide : {DType::kI32, DType::kI64}) {
      for (const double id : {0.0, 5.0, 9.0}) CHECK_NOTHROW(look_up(id, wide));
      for (const double id : {-1.0, 10.0})
        CHECK_THROWS_WITH_AS(look_up(id, wide),
                             fmt::format("the id {} is not one of 0 to 9", id).c_str(), Error);
    }
    CHECK_THROWS_WITH_AS(KernelCall("embedding_grad", {{"vocab", std::int64_t{10}}})
                             .input({{{2}, DType::kI32}, {0, 10}, {}})
                             .input(rows)
                             .output(part)
                             .run(table),
                         "the id 10 is not one of 0 to 9", Error);
  });
}

TEST_CASE("a label that is no class and not ignored is an error, whichever classes are here") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    const TestOperand logits{{{1, 3}, dtype}, {}, {0, 4}, Shape{1, 10}}, one{{{1}, dtype}, {1}, {}};
    const TestOperand none = scalar(dtype, 0);
    const auto loss = [&](double label, DType wide) {
      const TestOperand labels{{{1}, wide}, {label}, {}};
      KernelCall("cross_entropy", {{"ignore_index", std::int64_t{-7}}})
          .input(logits)
          .input(one)
          .input(one)
          .input(one)
          .input(labels)
          .output(none)
          .output(none)
          .run(table);
    };
    const auto gradient = [&](double label, DType wide) {
      KernelCall("cross_entropy_grad", {{"ignore_index", std::int64_t{-7}}})
          .input(logits)
          .input(one)
          .input(one)
          .input({{{1}, wide}, {label}, {}})
          .input(none)
          .output(logits)
          .run(table);
    };
    for (const DType wide : {DType::kI32, DType::kI64}) {
      for (const double label : {0.0, 5.0, 9.0, -7.0}) {
        CHECK_NOTHROW(loss(label, wide));
        CHECK_NOTHROW(gradient(label, wide));
      }
      for (const double label : {-1.0, 10.0, -100.0}) {
        const std::string text =
            fmt::format("the label {} is neither a class, 0 to 9, nor ignore_index -7", label);
        CHECK_THROWS_WITH_AS(loss(label, wide), text.c_str(), Error);
        CHECK_THROWS_WITH_AS(gradient(label, wide), text.c_str(), Error);
      }
    }
  });
}

TEST_CASE("ignored labels count neither in the loss nor in the gradient") {
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // Two rows, two classes, equal logits: probability 1/2, loss log 2 of the row that counts.
    const TestOperand x{{{2, 2}, dtype}, {3, 3, 5, 5}, {}};
    const TestOperand max{{{2}, dtype}, {3, 5}, {}};
    const TestOperand sum{{{2}, dtype}, {2, 2}, {}};
    const TestOperand labels{{{2}, DType::kI32}, {-100, 1}, {}};
    const auto loss = KernelCall("cross_entropy", {})
                          .input(x)
                          .input(max)
                          .input(sum)
                          .input({{{2}, dtype}, {0, 5}, {}})
                          .input(labels)
                          .output(scalar(dtype, 20), true)
                          .output(scalar(dtype, 10), true)
                          .run(table);
    CHECK(loss[0][0] == doctest::Approx(20 + std::log(2.0)).epsilon(tolerance));
    CHECK(loss[1][0] == 11.0);
    check_near(KernelCall("cross_entropy_grad", {})
                   .input(x)
                   .input(max)
                   .input(sum)
                   .input(labels)
                   .input(scalar(dtype, 3))
                   .output({{{2, 2}, dtype}, {}, {}})
                   .run(table)[0],
               {0, 0, 1.5, -1.5}, tolerance);
  });
}

TEST_CASE("the gradient of a class shard subtracts the label only where it lies") {
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // Four classes with logits log(1), log(2), log(3), log(4): probabilities .1 .2 .3 .4; label 2.
    // The second half holds classes 2 and 3: [.3 - 1, .4].
    const double log4 = std::log(4.0);
    check_near(KernelCall("cross_entropy_grad", {})
                   .input({{{1, 2}, dtype}, {std::log(3.0), log4}, {0, 2}, Shape{1, 4}})
                   .input({{{1}, dtype}, {log4}, {}})
                   .input({{{1}, dtype}, {2.5}, {}})
                   .input({{{1}, DType::kI32}, {2}, {}})
                   .input(scalar(dtype, 1))
                   .output({{{1, 2}, dtype}, {}, {0, 2}})
                   .run(table)[0],
               {-0.7, 0.4}, tolerance);
  });
}

TEST_CASE("rotary positions turn pairs by the angle of the global position") {
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // D = 4, theta = 10^4: pairs (0, 2) turn by s, (1, 3) by s / 100. A shard from position 3.
    const double a = 3, b = 0.03;
    const TestOperand x{{{1, 1, 1, 4}, dtype}, {1, 2, 0, 1}, {0, 3, 0, 0}};
    const std::vector<double> expected{std::cos(a), 2 * std::cos(b) - std::sin(b), std::sin(a),
                                       std::cos(b) + 2 * std::sin(b)};
    const auto y = KernelCall("rope", {{"theta", 10000.0}})
                       .input(x)
                       .output({{{1, 1, 1, 4}, dtype}, {}, {0, 3, 0, 0}})
                       .run(table)[0];
    check_near(y, expected, tolerance);
    const auto back = KernelCall("rope", {{"theta", 10000.0}, {"inverse", true}})
                          .input({{{1, 1, 1, 4}, dtype}, y, {0, 3, 0, 0}})
                          .output({{{1, 1, 1, 4}, dtype}, {}, {0, 3, 0, 0}})
                          .run(table)[0];
    CHECK(back[0] == doctest::Approx(1).epsilon(tolerance));
    CHECK(std::abs(back[2]) < tolerance);
  });
}

// Turns within 128 positions: of pairs that turn by 1, 0.1, 0.01 and 0.001 each, 20, 2.04, 0.2 and
// 0.02.
TEST_CASE("scaled rotary positions turn by less, those that turn often as before") {
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    const double s = 3, kept = (128 * 0.1 / (2 * std::acos(-1.0)) - 1) / (4 - 1);
    const std::vector<double> angles = {s, s * (kept * 0.1 + (1 - kept) * 0.1 / 8), s * 0.01 / 8,
                                        s * 0.001 / 8};
    Attributes attributes{{"theta", 10000.0}};
    add_scaling({.factor = 8, .low_turns = 1, .high_turns = 4, .original_length = 128}, attributes);
    const TestOperand x{{{1, 1, 1, 8}, dtype}, {1, 1, 1, 1, 0, 0, 0, 0}, {0, 3, 0, 0}};
    const auto y = KernelCall("rope", attributes)
                       .input(x)
                       .output({{{1, 1, 1, 8}, dtype}, {}, {0, 3, 0, 0}})
                       .run(table)[0];
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(y[i] == doctest::Approx(std::cos(angles[i])).epsilon(tolerance));
      CHECK(y[i + 4] == doctest::Approx(std::sin(angles[i])).epsilon(tolerance));
    }
    const auto linear = KernelCall("rope", {{"theta", 10000.0}, {"factor", 8.0}})
                            .input(x)
                            .output({{{1, 1, 1, 8}, dtype}, {}, {0, 3, 0, 0}})
                            .run(table)[0];
    CHECK(linear[4] == doctest::Approx(std::sin(s / 8)).epsilon(tolerance));
  });
}

TEST_CASE("causal attention sees no later key and shares key heads within a group") {
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // S = 2, H = 2, KV = 1, D = 1, scale 1. k = [0, log 3], v = [4, 8].
    // Position 0 sees only key 0: o = 4, lse = 0. Position 1, head 0, q = 1: weights 1 : 3, so
    // o = (4 + 24) / 4 = 7, lse = log 4; head 1, q = 0: weights 1 : 1, o = 6, lse = log 2.
    const TestOperand q{{{1, 2, 2, 1}, dtype}, {5, -2, 1, 0}, {}};
    const TestOperand k{{{1, 2, 1, 1}, dtype}, {0, std::log(3.0)}, {}};
    const TestOperand v{{{1, 2, 1, 1}, dtype}, {4, 8}, {}};
    const auto results = KernelCall("attention", {})
                             .input(q)
                             .input(k)
                             .input(v)
                             .output({{{1, 2, 2, 1}, dtype}, {}, {}})
                             .output({{{1, 2, 2}, dtype}, {}, {}})
                             .run(table);
    check_near(results[0], {4, 4, 7, 6}, tolerance);
    REQUIRE(results[1].size() == 4);
    CHECK(std::abs(results[1][0]) < tolerance);
    CHECK(results[1][2] == doctest::Approx(std::log(4.0)).epsilon(tolerance));
    CHECK(results[1][3] == doctest::Approx(std::log(2.0)).epsilon(tolerance));
    // d_o = 1 everywhere. dv[1] = 3/4 + 1/2; dv[0] = 1 + 1 + 1/4 + 1/2.
    // Head 0 at position 1: delta = 7, ds = [1/4 (4 - 7), 3/4 (8 - 7)] = [-.75, .75];
    // head 1: delta = 6, ds = [-1, 1]. dq = ds . k: .75 log 3, log 3. dk = ds q: [-.75, .75] + 0.
    const TestOperand ones{{{1, 2, 2, 1}, dtype}, {1, 1, 1, 1}, {}};
    const auto grads = KernelCall("attention_grad", {})
                           .input(q)
                           .input(k)
                           .input(v)
                           .input({{{1, 2, 2, 1}, dtype}, results[0], {}})
                           .input({{{1, 2, 2}, dtype}, results[1], {}})
                           .input(ones)
                           .output({{{1, 2, 2, 1}, dtype}, {}, {}})
                           .output({{{1, 2, 1, 1}, dtype}, {}, {}})
                           .output({{{1, 2, 1, 1}, dtype}, {}, {}})
                           .run(table);
    check_near(grads[0], {0, 0, 0.75 * std::log(3.0), std::log(3.0)}, tolerance);
    check_near(grads[1], {-0.75, 0.75}, tolerance);
    check_near(grads[2], {2.75, 1.25}, tolerance);
  });
}

TEST_CASE("the optimizer multiplies the gradient by the coefficient of the step") {  // G28
  in_both_tables([](const KernelTable& table, DType dtype, double tolerance) {
    // Gradient sum 320 over 110 tokens: g = 2.909091. Step 1: m = .1 g, v = .05 g^2, both
    // corrected back to g and g^2, so the direction is g / (g + eps) = 1 and
    // p = 1 - .1 (1 + .5 * 1) = .85.
    const Attributes attributes{{"learning_rate", 0.1}, {"beta1", 0.9},        {"beta2", 0.95},
                                {"epsilon", 0.0},       {"weight_decay", 0.5}, {"parameter", "w"}};
    KernelCall call("adamw", attributes);
    call.input({{{1}, dtype}, {320}, {}})
        .input({{{2}, DType::kF64}, {1.0 / 110.0, 1.0}, {}})
        .output({{{1}, dtype}, {1}, {}})
        .output({{{1}, dtype}, {}, {}})
        .output({{{1}, dtype}, {}, {}})
        .output(scalar(DType::kI64, 0));
    const double g = 320.0 / 110.0;
    const auto first = call.run(table);
    check_near(first[0], {0.85}, tolerance);
    check_near(first[1], {0.1 * g}, tolerance);
    check_near(first[2], {0.05 * g * g}, tolerance);
    CHECK(first[3][0] == 1.0);
    // The same gradient again leaves the corrected moments: p = .85 - .1 (1 + .425) = .7075.
    const auto second = call.run(table);
    check_near(second[0], {0.7075}, tolerance);
    CHECK(second[3][0] == 2.0);
  });
}

TEST_CASE("an update that the control forbids changes nothing") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    const Attributes attributes{{"learning_rate", 0.1},
                                {"beta1", 0.9},
                                {"beta2", 0.95},
                                {"epsilon", 1e-8},
                                {"weight_decay", 0.5}};
    const auto results = KernelCall("adamw", attributes)
                             .input({{{1}, dtype}, {3}, {}})
                             .input({{{2}, DType::kF64}, {1.0, 0.0}, {}})
                             .output({{{1}, dtype}, {1}, {}})
                             .output({{{1}, dtype}, {2}, {}})
                             .output({{{1}, dtype}, {3}, {}})
                             .output(scalar(DType::kI64, 4))
                             .run(table);
    CHECK(results == std::vector<std::vector<double>>{{1}, {2}, {3}, {4}});
  });
}

TEST_CASE("shape kernels move elements and nothing else") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    const TestOperand x{{{2, 3}, dtype}, {1, 2, 3, 4, 5, 6}, {}};
    CHECK(KernelCall("reshape", {}).input(x).output({{{3, 2}, dtype}, {}, {}}).run(table)[0] ==
          x.values);
    CHECK(KernelCall("transpose", {{"permutation", std::vector<std::int64_t>{1, 0}}})
              .input(x)
              .output({{{3, 2}, dtype}, {}, {}})
              .run(table)[0] == std::vector<double>{1, 4, 2, 5, 3, 6});
    CHECK(KernelCall(
              "slice",
              {{"dim", std::int64_t{1}}, {"start", std::int64_t{1}}, {"stop", std::int64_t{3}}})
              .input(x)
              .output({{{2, 2}, dtype}, {}, {}})
              .run(table)[0] == std::vector<double>{2, 3, 5, 6});
    CHECK(KernelCall(
              "pad",
              {{"dim", std::int64_t{0}}, {"before", std::int64_t{1}}, {"after", std::int64_t{0}}})
              .input(x)
              .output({{{3, 3}, dtype}, {9, 9, 9, 9, 9, 9, 9, 9, 9}, {}})
              .run(table)[0] == std::vector<double>{0, 0, 0, 1, 2, 3, 4, 5, 6});
  });
}

TEST_CASE("cast rounds to nearest even and truncates towards zero") {
  const KernelTable table = fast_kernels();
  const auto cast = [&](DType from, std::vector<double> values, DType to) {
    const auto count = static_cast<std::int64_t>(values.size());
    return KernelCall("cast", {})
        .input({{{count}, from}, std::move(values), {}})
        .output({{{count}, to}, {}, {}})
        .run(table)[0];
  };
  // bf16 has 8 significant bits: 257 lies halfway between 256 and 258 (even: 256), 259 between
  // 258 and 260 (even: 260).
  CHECK(cast(DType::kF32, {257, 259, 1.0}, DType::kBF16) == std::vector<double>{256, 260, 1});
  CHECK(cast(DType::kF32, {2.9, -2.9}, DType::kI32) == std::vector<double>{2, -2});
  CHECK(cast(DType::kI32, {7}, DType::kF64) == std::vector<double>{7});
}

TEST_CASE("the reference computes in wider than the storage type and rounds once") {
  // 256 + 1 + 1 in bf16: rounding after each addition would stay at 256.
  const auto results = KernelCall("reduce_to_bias", {{"rank", std::int64_t{1}}})
                           .input({{{3, 1}, DType::kBF16}, {256, 1, 1}, {}})
                           .output({{{1}, DType::kBF16}, {}, {}})
                           .run(reference_kernels());
  CHECK(results[0] == std::vector<double>{258});
}

TEST_CASE("local boxing slices, masks and keeps as the words say") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    // Global [5], two ranks: 3 and 2 elements.
    const TestOperand whole{{{5}, dtype}, {1, 2, 3, 4, 5}, {}};
    const TestOperand second{{{2}, dtype}, {4, 5}, {3}};
    const auto box = [&](const TestOperand& from, const std::string& from_words,
                         const TestOperand& to, const std::string& to_words, std::int64_t rank) {
      return KernelCall("box_local", {})
          .input(from)
          .output(to)
          .words(from_words, to_words)
          .at({2}, {rank})
          .run(table)[0];
    };
    const TestOperand whole_out{{{5}, dtype}, {9, 9, 9, 9, 9}, {}};
    const TestOperand second_out{{{2}, dtype}, {}, {3}};
    CHECK(box(whole, "B", second_out, "S(0)", 1) == std::vector<double>{4, 5});
    CHECK(box(second, "S(0)", whole_out, "P(sum)", 1) == std::vector<double>{0, 0, 0, 4, 5});
    CHECK(box(whole, "B", whole_out, "P(sum)", 0) == whole.values);
    CHECK(box(whole, "B", whole_out, "P(sum)", 1) == std::vector<double>(5, 0.0));
    CHECK(box(whole, "B", whole_out, "P(max)", 1) == whole.values);
    const double lowest = -INFINITY;
    CHECK(box(second, "S(0)", whole_out, "P(max)", 1) ==
          std::vector<double>{lowest, lowest, lowest, 4, 5});
    CHECK_THROWS(box(whole, "P(sum)", second_out, "S(0)", 1));
  });
}

TEST_CASE("local boxing that takes over nothing fills with the neutral element") {
  in_both_tables([](const KernelTable& table, DType dtype, double) {
    const auto fill = [&](const std::string& words) {
      return KernelCall("box_local", {})
          .output({{{3}, dtype}, {9, 9, 9}, {}})
          .words(words, words)
          .run(table)[0];
    };
    CHECK(fill("P(sum)") == std::vector<double>(3, 0.0));
    CHECK(fill("P(max)") == std::vector<double>(3, -INFINITY));
    CHECK(fill("P(min)") == std::vector<double>(3, INFINITY));
  });
}

TEST_CASE("every operator kind that runs on a device has a kernel") {
  const std::vector<std::string> kinds = reference_kernels().kinds();
  CHECK(kinds == fast_kernels().kinds());
  for (const char* kind : {"matmul", "attention", "adamw", "box_local", "constant"})
    CHECK(std::find(kinds.begin(), kinds.end(), kind) != kinds.end());
}

}  // namespace
}  // namespace sextant::kernels_test
