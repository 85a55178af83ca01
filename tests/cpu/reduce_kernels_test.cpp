// Reductions against numbers worked out by hand.
#include "backends/cpu/kernels/shared/kernel.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace sextant::reduce_kernels_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

const double kInfinity = std::numeric_limits<double>::infinity();

Numbers run(const std::string& kind, std::vector<TestOperand> inputs, TensorType output,
            Attributes attributes) {
  KernelCall call(kind, std::move(attributes));
  for (TestOperand& input : inputs) call.input(std::move(input));
  return call.output({std::move(output), {}, {}}).run(reference_kernels())[0];
}

TestOperand table(DType dtype) { return {{{2, 3}, dtype}, {1, 2, 3, 4, 5, 9}, {}}; }

TEST_CASE("sums and extrema run over the dims they name, with or without keeping them") {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI32}) {
    for (const bool keep : {false, true}) {
      const Attributes rows = {{"dims", Integers{1}}, {"keep_dims", keep}};
      const Attributes columns = {{"dims", Integers{0}}, {"keep_dims", keep}};
      const Attributes all = {{"dims", Integers{-1, 0}}, {"keep_dims", keep}};
      const TensorType two{keep ? Shape{2, 1} : Shape{2}, dtype};
      const TensorType three{keep ? Shape{1, 3} : Shape{3}, dtype};
      const TensorType one{keep ? Shape{1, 1} : Shape{}, dtype};
      CHECK(run("reduce_sum", {table(dtype)}, two, rows) == Numbers{6, 18});
      CHECK(run("reduce_sum", {table(dtype)}, three, columns) == Numbers{5, 7, 12});
      CHECK(run("reduce_sum", {table(dtype)}, one, all) == Numbers{24});
      CHECK(run("reduce_max", {table(dtype)}, two, rows) == Numbers{3, 9});
      CHECK(run("reduce_min", {table(dtype)}, three, columns) == Numbers{1, 2, 3});
    }
  }
}

TEST_CASE("integers beyond the mantissa of a double are summed exactly") {
  // 2^53 + 1 + 1: a double would stay at 2^53. The difference to 2^53 is what the test can see.
  const double big = 0x1p53;
  const TestOperand x{{{4}, DType::kI64}, {big, 1, 1, -big}, {}};
  CHECK(run("reduce_sum", {x}, {{}, DType::kI64}, {{"dims", Integers{0}}}) == Numbers{2});
}

TEST_CASE("a sum of bool counts, its maximum is any and its minimum all") {
  const TestOperand x{{{2, 2}, DType::kBool}, {1, 0, 1, 1}, {}};
  const Attributes rows = {{"dims", Integers{1}}, {"out_dtype", "i32"}};
  CHECK(run("reduce_sum", {x}, {{2}, DType::kI32}, rows) == Numbers{1, 2});
  CHECK(run("reduce_max", {x}, {{2}, DType::kBool}, rows) == Numbers{1, 1});
  CHECK(run("reduce_min", {x}, {{2}, DType::kBool}, rows) == Numbers{0, 1});
}

TEST_CASE("a reduction of nothing is its neutral element") {
  const Attributes rows = {{"dims", Integers{1}}};
  const auto of_nothing = [&](const char* kind, DType dtype) {
    return run(kind, {{{{1, 0}, dtype}, {}, {}}}, {{1}, dtype}, rows)[0];
  };
  CHECK(of_nothing("reduce_sum", DType::kF32) == 0);
  CHECK(of_nothing("reduce_max", DType::kF32) == -kInfinity);
  CHECK(of_nothing("reduce_min", DType::kBF16) == kInfinity);
  CHECK(of_nothing("reduce_max", DType::kI32) == -0x1p31);
  CHECK(of_nothing("reduce_min", DType::kI32) == 0x1p31 - 1);
  CHECK(of_nothing("reduce_max", DType::kI64) == -0x1p63);
  CHECK(of_nothing("reduce_max", DType::kBool) == 0);
  CHECK(of_nothing("reduce_min", DType::kBool) == 1);
}

TEST_CASE("NaN wins wherever it stands") {
  for (const char* kind : {"reduce_max", "reduce_min"})
    for (const Numbers& values : {Numbers{NAN, 1, 2}, Numbers{1, NAN, 2}, Numbers{1, 2, NAN}})
      CHECK(std::isnan(run(kind, {{{{3}, DType::kF32}, values, {}}}, {{}, DType::kF32},
                           {{"dims", Integers{0}}})[0]));
}

TEST_CASE("the mean of a shard is its sum over the global count") {  // G02
  // 0..11 as [3,4] over 2 ranks: 28 / 12 of rows 0 and 1, 38 / 12 of row 2; together 5.5.
  const Attributes all = {{"dims", Integers{0, 1}}};
  const TestOperand first{{{2, 4}, DType::kF64}, {0, 1, 2, 3, 4, 5, 6, 7}, {}, Shape{3, 4}};
  const TestOperand second{{{1, 4}, DType::kF64}, {8, 9, 10, 11}, {2, 0}, Shape{3, 4}};
  const TestOperand none{{{0, 4}, DType::kF64}, {}, {3, 0}, Shape{3, 4}};
  const TensorType one{{}, DType::kF64};
  CHECK(run("reduce_mean", {first}, one, all)[0] == 28.0 / 12);
  CHECK(run("reduce_mean", {second}, one, all)[0] == 38.0 / 12);
  CHECK(run("reduce_mean", {none}, one, all)[0] == 0);
  CHECK(std::isnan(run("reduce_mean", {{{{0, 4}, DType::kF64}, {}, {}}}, one, all)[0]));
}

TEST_CASE("equal maxima share the gradient") {
  const TestOperand x{{{2, 3}, DType::kF64}, {1, 3, 3, 5, 2, 5}, {}};
  const Attributes rows = {{"dims", Integers{1}}};
  const TestOperand max{{{2}, DType::kF64}, {3, 5}, {}};
  CHECK(run("extremum_count", {x, max}, {{2}, DType::kF64}, rows) == Numbers{2, 2});
  const TestOperand count{{{2}, DType::kF64}, {2, 2}, {}}, dy{{{2}, DType::kF64}, {10, -4}, {}};
  CHECK(run("extremum_grad", {x, max, count, dy}, {{2, 3}, DType::kF64}, rows) ==
        Numbers{0, 5, 5, -2, 0, -2});
}

TEST_CASE("a dot over dims multiplies first, and expand repeats") {
  const TestOperand a = table(DType::kF32), b{{{2, 3}, DType::kF32}, {1, 0, -1, 2, 2, 1}, {}};
  // Columns: 1 1 + 4 2 = 9, 2 0 + 5 2 = 10, 3 (-1) + 9 1 = 6.
  CHECK(run("reduce_dot", {a, b}, {{3}, DType::kF32}, {{"dims", Integers{0}}}) ==
        Numbers{9, 10, 6});
  const TestOperand x{{{2}, DType::kI32}, {7, 8}, {}};
  CHECK(run("expand", {x}, {{2, 3}, DType::kI32},
            {{"dims", Integers{1}}, {"shape", Integers{2, 3}}}) == Numbers{7, 7, 7, 8, 8, 8});
  CHECK(run("expand", {x}, {{3, 2}, DType::kI32},
            {{"dims", Integers{0}}, {"shape", Integers{3, 2}}}) == Numbers{7, 8, 7, 8, 7, 8});
}

TEST_CASE("a shard adds its running sum to the whole row: zeros before it, its total after") {
  // Elements 2 and 3 of six, 5 and 7.
  const TestOperand x{{{2}, DType::kF32}, {5, 7}, {2}};
  const auto scan = [&](bool reverse, bool exclusive) {
    return run("cumsum", {x}, {{6}, DType::kF32},
               {{"dim", std::int64_t{0}}, {"reverse", reverse}, {"exclusive", exclusive}});
  };
  CHECK(scan(false, false) == Numbers{0, 0, 5, 12, 12, 12});
  CHECK(scan(false, true) == Numbers{0, 0, 0, 5, 12, 12});
  CHECK(scan(true, false) == Numbers{12, 12, 12, 7, 0, 0});
  CHECK(scan(true, true) == Numbers{12, 12, 7, 0, 0, 0});
}

TEST_CASE("running sums go along the dim they name") {
  const auto scan = [&](std::int64_t dim) {
    return run("cumsum", {table(DType::kI32)}, {{2, 3}, DType::kI32}, {{"dim", dim}});
  };
  CHECK(scan(0) == Numbers{1, 2, 3, 5, 7, 12});
  CHECK(scan(-1) == Numbers{1, 3, 6, 4, 9, 18});
  CHECK_THROWS(
      run("cumsum", {table(DType::kI32)}, {{3, 3}, DType::kI32}, {{"dim", std::int64_t{1}}}));
}

TEST_CASE("the first index of a value counts in the global tensor") {
  // Elements 3 to 5 of a row: the first 8 is element 4; 9 is not among them, NaN only if it is
  // asked.
  const TestOperand x{{{1, 3}, DType::kF64}, {7, 8, 8}, {0, 3}};
  const auto first = [&](const TestOperand& in, double value) {
    return run("first_index_of", {in, {{{1}, DType::kF64}, {value}, {}}}, {{1}, DType::kI64},
               {{"dim", std::int64_t{1}}})[0];
  };
  CHECK(first(x, 8) == 4);
  CHECK(first(x, 9) == 0x1p63);  // 2^63 - 1, as a double
  const TestOperand with_nan{{{1, 3}, DType::kF64}, {7, NAN, NAN}, {0, 3}};
  CHECK(first(with_nan, NAN) == 4);
  CHECK(first(with_nan, 7) == 3);
}

TEST_CASE("softmax over the middle dim, its parts and its slope") {
  // x = [0 0; ln 3 ln 2] along dim 0: columns 1/4 3/4 and 1/3 2/3.
  const Attributes columns = {{"dims", Integers{0}}};
  const TestOperand x{{{2, 2}, DType::kF64}, {0, 0, std::log(3.0), std::log(2.0)}, {}};
  const TestOperand max{{{2}, DType::kF64}, {std::log(3.0), std::log(2.0)}, {}};
  const Numbers sum = run("reduce_sum_exp", {x, max}, {{2}, DType::kF64}, columns);
  CHECK(sum[0] == doctest::Approx(4.0 / 3).epsilon(1e-15));
  CHECK(sum[1] == doctest::Approx(1.5).epsilon(1e-15));
  const Numbers y =
      run("softmax", {x, max, {{{2}, DType::kF64}, sum, {}}}, {{2, 2}, DType::kF64}, columns);
  const Numbers wanted = {1.0 / 4, 1.0 / 3, 3.0 / 4, 2.0 / 3};
  for (std::size_t i = 0; i < 4; ++i) CHECK(y[i] == doctest::Approx(wanted[i]).epsilon(1e-15));
  // dy = [1 0; 0 3]: dots 1/4 and 2; dx = y (dy - dot).
  const TestOperand half{{{2, 2}, DType::kF64}, {0.25, 0.5, 0.75, 0.5}, {}};
  const TestOperand dy{{{2, 2}, DType::kF64}, {1, 0, 0, 3}, {}};
  const TestOperand dot{{{2}, DType::kF64}, {0.25, 1.5}, {}};
  CHECK(run("softmax_grad", {half, dy, dot}, {{2, 2}, DType::kF64}, columns) ==
        Numbers{0.1875, -0.75, -0.1875, 0.75});
}

TEST_CASE("a batch norm over rows: centred squares, values and slopes") {
  // [N=3, C=2], channel 0: 0 2 10, mean 4; channel 1: 1 1 4, mean 2; rstd given as 1/2 and 1.
  const Attributes batch = {{"dims", Integers{0}}, {"weight_dims", Integers{1}}};
  const TestOperand x{{{3, 2}, DType::kF64}, {0, 1, 2, 1, 10, 4}, {}};
  const TensorType two{{2}, DType::kF64}, six{{3, 2}, DType::kF64};
  const TestOperand mean{two, {4, 2}, {}}, rstd{two, {0.5, 1}, {}}, gamma{two, {2, 3}, {}},
      beta{two, {1, -1}, {}};
  // 16 + 4 + 36 and 1 + 1 + 4; without a mean 104 and 18.
  CHECK(run("reduce_squares", {x, mean}, two, {{"dims", Integers{0}}}) == Numbers{56, 6});
  CHECK(run("reduce_squares", {x}, two, {{"dims", Integers{0}}}) == Numbers{104, 18});
  // (x - 4) / 2 * 2 + 1 and (x - 2) 3 - 1; without mean and beta x and 3 x.
  CHECK(run("normalize", {x, mean, rstd, gamma, beta}, six, batch) ==
        Numbers{-3, -4, -1, -4, 7, 5});
  CHECK(run("normalize", {x, rstd, gamma}, six, batch) == Numbers{0, 3, 2, 3, 10, 12});
  const TestOperand dy{six, {1, 0, 0, 1, 2, 1}, {}};
  KernelCall sums("normalize_grad_sums", batch);
  for (const TestOperand& operand : {x, mean, gamma, dy}) sums.input(operand);
  const auto found = sums.output({two, {}, {}}).output({two, {}, {}}).run(reference_kernels());
  // dy gamma: 2 0 4 and 0 3 3; times x - mean: -8 + 24 and -3 + 6.
  CHECK(found[0] == Numbers{6, 6});
  CHECK(found[1] == Numbers{16, 3});
  KernelCall weights("normalize_grad_weight", batch);
  for (const TestOperand& operand : {x, mean, rstd, dy}) weights.input(operand);
  const auto slopes = weights.output({two, {}, {}}).output({two, {}, {}}).run(reference_kernels());
  // dy (x - mean) rstd: -2 + 6 and -1 + 2; dy: 3 and 2.
  CHECK(slopes[0] == Numbers{4, 1});
  CHECK(slopes[1] == Numbers{3, 2});
  // rstd (dy gamma - avg - (x - mean) rstd^2 sum_gx / 3), sums 6 and 24, 3 and 9:
  // channel 0: 1/2 (2 - 2 - (-4) 2), 1/2 (0 - 2 - (-2) 2), 1/2 (4 - 2 - 6 2);
  // channel 1: 0 - 1 - (-1) 3, 3 - 1 - (-1) 3, 3 - 1 - 2 3.
  const TestOperand sum_g{two, {6, 3}, {}}, sum_gx{two, {24, 9}, {}};
  CHECK(run("normalize_grad_input", {x, mean, rstd, gamma, sum_g, sum_gx, dy}, six, batch) ==
        Numbers{4, 2, 1, 5, -5, -4});
  // The same from sums of the weights: dbeta = sum_g / gamma, dgamma = sum_gx rstd / gamma.
  Attributes of_weights = batch;
  of_weights.set("sums", std::string("of_weights"));
  const TestOperand dbeta{two, {3, 1}, {}}, dgamma{two, {6, 3}, {}};
  CHECK(run("normalize_grad_input", {x, mean, rstd, gamma, dbeta, dgamma, dy}, six, of_weights) ==
        Numbers{4, 2, 1, 5, -5, -4});
}

TEST_CASE("a shard's slope of a norm averages over the global count") {
  // One of two elements of a row: sums 4 and 0 over 2 are an average of 2, not 4.
  const Attributes last = {{"dims", Integers{-1}}, {"weight_dims", Integers{-1}}};
  const TestOperand x{{{1}, DType::kF64}, {5}, {1}, Shape{2}};
  const TestOperand one{{{}, DType::kF64}, {1}, {}}, zero{{{}, DType::kF64}, {0}, {}};
  const TestOperand four{{{}, DType::kF64}, {4}, {}}, gamma{{{1}, DType::kF64}, {1}, {1}};
  const TestOperand dy{{{1}, DType::kF64}, {3}, {1}};
  CHECK(run("normalize_grad_input", {x, zero, one, gamma, four, zero, dy}, {{1}, DType::kF64},
            last) == Numbers{1});
}

TEST_CASE("a sum adds to what is there when it accumulates") {
  KernelCall call("reduce_sum", {{"dims", Integers{1}}});
  call.input(table(DType::kF32)).output({{{2}, DType::kF32}, {100, 200}, {}}, true);
  CHECK(call.run(reference_kernels())[0] == Numbers{106, 218});
}

}  // namespace
}  // namespace sextant::reduce_kernels_test
