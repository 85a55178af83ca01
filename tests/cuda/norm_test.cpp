// Norms and reductions where they are odd: rows of every kernel's length, cancelling means, ties,
// infinities and NaN, nothing at all.
#include "tests/cuda/both_calls.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sextant::norm_test {
namespace {

using Integers = std::vector<std::int64_t>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TestOperand random(const TensorType& type, std::uint64_t salt, double range) {
  return {.type = type, .values = digits(type.shape.elements(), salt, range)};
}
TestOperand whole(const TensorType& type, std::uint64_t salt, std::int64_t below) {
  return {.type = type, .values = whole_numbers(type.shape.elements(), salt, below)};
}
TestOperand of_value(const TensorType& type, double value) {
  const auto count = static_cast<std::size_t>(type.shape.elements());
  return {.type = type, .values = std::vector<double>(count, value)};
}
TestOperand empty(const TensorType& type) { return of_value(type, 0); }

double half_unit(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-8;
    case DType::kF16:
      return 0x1p-11;
    case DType::kF32:
      return 0x1p-24;
    default:
      return 0x1p-53;
  }
}

// A thread adds at most 256 values before the tree, so a mean of values up to 3 is off by less than
// 270 units of 2^-24 times 3, and rstd by as many units; y and dx are a few products of these. f64
// has 2^-53 instead.
double bound_of(DType dtype) { return 16 * 270 * (dtype == DType::kF64 ? 0x1p-53 : 0x1p-24); }

const Attributes kEpsilon = {{"epsilon", 1e-5}};

}  // namespace

TEST_CASE("norms and their gradients hold for rows of 1 to 65,537 of all floating types" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
    for (const std::int64_t n : {1, 2, 7, 8, 255, 600, 1023, 1024, 1025, 1600, 2048, 4096, 8192,
                                 12288, 32768, 65536, 65537}) {
      CAPTURE(n);
      CAPTURE(std::string(to_string(dtype)));
      const DType wide = dtype == DType::kF64 ? dtype : DType::kF32;
      const TensorType type{Shape{5, n}, dtype}, row{Shape{5}, wide}, weight{Shape{n}, dtype};
      const TestOperand x = random(type, 1, 3), gamma = random(weight, 2, 2),
                        beta = random(weight, 3, 2), dy = random(type, 4, 3);
      const double bound = bound_of(dtype), unit = 2 * half_unit(dtype);
      for (const bool accumulate : {false, true}) {
        const auto check = [&](const BothResults& results) {
          for (std::size_t i = 0; i < results.reference.size(); ++i)
            check_close(results.device[i], results.reference[i], bound, bound + unit);
        };
        const std::vector<TestOperand> rows = {random(type, 5, 1), random(row, 6, 1),
                                               random(row, 7, 1)};
        check(run_on_both("layer_norm", kEpsilon, {x, gamma, beta}, rows, accumulate));
        check(run_on_both("rms_norm", kEpsilon, {x, gamma}, {rows[0], rows[1]}, accumulate));
        const TestOperand mean = random(row, 8, 0.1), rstd = of_value(row, 0.5);
        check(run_on_both("layer_norm_grad_input", {}, {x, gamma, mean, rstd, dy}, {rows[0]},
                          accumulate));
        check(run_on_both("rms_norm_grad_input", {}, {x, gamma, rstd, dy}, {rows[0]}, accumulate));
      }
    }
}

// More rows than groups of threads run at once on an H200, so that a group loads its next row while
// it computes one; for each shape of a group, and for rows that no 16 bytes divide. With the
// additions around norms: the sum is rounded, the gradient is not before the addition.
TEST_CASE("norms of many rows, and the additions around them, hold row by row" *
          doctest::skip(!has_gpu())) {
  using Operand = ActorMember::Operand;
  using Source = Operand::Source;
  const auto in = [](std::int32_t index) { return Operand{Source::kInput, index}; };
  const auto out = [](std::int32_t index) { return Operand{Source::kOutput, index}; };
  const double bound = bound_of(DType::kBF16), unit = 2 * half_unit(DType::kBF16);
  CudaContext context{CudaOptions{}};
  const auto run = [&](DeviceCall& call) {
    const auto kernel =
        call.kernel([](const KernelContext& on,
                       CudaContext& device) { return cuda_kernels().make(on, device); },
                    context);
    REQUIRE(kernel != nullptr);
    kernel->enqueue(nullptr);
    CHECK(call.is_guarded());
    return call.results();
  };
  const auto check = [&](const std::vector<std::vector<double>>& found,
                         const std::vector<std::vector<double>>& wanted) {
    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      check_close(found[i], wanted[i], bound, bound + unit);
  };
  for (const auto& [rows, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{{4300, 64},
                                                                                  {2201, 1024},
                                                                                  {1801, 1600},
                                                                                  {601, 4096},
                                                                                  {271, 8192},
                                                                                  {139, 12288},
                                                                                  {801, 1023},
                                                                                  {203, 4095}}) {
    CAPTURE(rows);
    CAPTURE(n);
    const TensorType type{Shape{rows, n}, DType::kBF16}, row{Shape{rows}, DType::kF32},
        weight{Shape{n}, DType::kBF16};
    const TestOperand x = random(type, 1, 3), gamma = random(weight, 2, 2),
                      beta = random(weight, 3, 2), dy = random(type, 4, 3),
                      other = random(type, 5, 2), mean = random(row, 6, 0.1),
                      rstd = random(row, 7, 0.5);
    for (const bool is_centred : {true, false}) {
      const std::string norm = is_centred ? "layer_norm" : "rms_norm";
      CAPTURE(norm);
      std::vector<TestOperand> weights = {gamma}, statistics = {rstd}, results = {empty(type)};
      if (is_centred) {
        weights.push_back(beta);
        statistics.insert(statistics.begin(), mean);
        results.push_back(empty(row));
      }
      results.push_back(empty(row));
      const auto after = [&](const TestOperand& first) {
        std::vector<TestOperand> operands = {first};
        operands.insert(operands.end(), weights.begin(), weights.end());
        return operands;
      };
      const BothResults plain = run_on_both(norm, kEpsilon, after(x), results);
      check(plain.device, plain.reference);
      std::vector<TestOperand> of_gradient = {x, gamma};
      of_gradient.insert(of_gradient.end(), statistics.begin(), statistics.end());
      of_gradient.push_back(dy);
      // In f64, so that it is rounded once: by the addition.
      KernelCall exact(norm + "_grad_input", {});
      for (const TestOperand& operand : of_gradient) exact.input(operand);
      exact.output(empty({type.shape, DType::kF64}));
      const std::vector<double> dx = exact.run(reference_kernels())[0];
      const BothResults gradient =
          run_on_both(norm + "_grad_input", {}, of_gradient, {empty(type)});
      check(gradient.device, {dx});

      const BothResults sum = run_on_both("add", {}, {x, other}, {empty(type)});
      KernelCall of_sum(norm, kEpsilon);
      for (const TestOperand& operand : after({.type = type, .values = sum.reference[0]}))
        of_sum.input(operand);
      for (const TestOperand& result : results) of_sum.output(result);
      std::vector<std::vector<double>> wanted = of_sum.run(reference_kernels());
      wanted.insert(wanted.begin(), sum.reference[0]);
      DeviceCall add_norm("add_" + norm, {});
      add_norm.input(x).input(other).output(empty(type));
      DeviceCall::Seen seen = {out(0)}, made;
      for (const TestOperand& operand : weights) {
        seen.push_back(in(static_cast<std::int32_t>(seen.size() + 1)));
        add_norm.input(operand);
      }
      for (const TestOperand& result : results) {
        made.push_back(out(static_cast<std::int32_t>(made.size() + 1)));
        add_norm.output(result);
      }
      add_norm.member("add", {}, {in(0), in(1)}, {out(0)}).member(norm, kEpsilon, seen, made);
      check(run(add_norm), wanted);

      DeviceCall grad_add(norm + "_grad_add", {});
      DeviceCall::Seen read;
      for (const TestOperand& operand : of_gradient) {
        read.push_back(in(static_cast<std::int32_t>(read.size())));
        grad_add.input(operand);
      }
      const auto last = static_cast<std::int32_t>(read.size());
      grad_add.input(other).output(empty(type)).inner(type);
      grad_add.member(norm + "_grad_input", {}, read, {{Source::kInner, 0}})
          .member("add", {}, {{Source::kInner, 0}, in(last)}, {out(0)});
      // What is added is exact in bf16 where the device sees it: as the sum with nothing.
      const BothResults rounded = run_on_both("add", {}, {other, of_value(type, 0)}, {empty(type)});
      std::vector<double> total = dx;
      for (std::size_t i = 0; i < total.size(); ++i) total[i] += rounded.reference[0][i];
      check(run(grad_add), {total});
    }
  }
}

// A sum of squares minus the square of the mean would lose all digits: 4096^2 = 2^24.
TEST_CASE("a mean of 4096 does not cancel the variance of 1" * doctest::skip(!has_gpu())) {
  for (const std::int64_t n : {1023, 1024}) {
    const TensorType type{Shape{3, n}, DType::kF32}, row{Shape{3}, DType::kF32},
        weight{Shape{n}, DType::kF32};
    TestOperand x = random(type, 1, 1);
    for (double& value : x.values) value += 4096;
    const BothResults results =
        run_on_both("layer_norm", kEpsilon, {x, of_value(weight, 1), of_value(weight, 0)},
                    {empty(type), empty(row), empty(row)});
    // The mean is off by at most 40 units of 2^-24 x 4096, 0.01; y by 1.8 times that.
    check_close(results.device[0], results.reference[0], 0.02, 1e-4);
    check_close(results.device[2], results.reference[2], 0, 1e-3);
  }
}

TEST_CASE("rows that are constant give beta, and rows of nothing give nothing" *
          doctest::skip(!has_gpu())) {
  const TensorType type{Shape{4, 24}, DType::kF32}, row{Shape{4}, DType::kF32},
      weight{Shape{24}, DType::kF32};
  const TestOperand beta = random(weight, 1, 3);
  const BothResults constant =
      run_on_both("layer_norm", kEpsilon, {of_value(type, 2.5), random(weight, 2, 3), beta},
                  {empty(type), empty(row), empty(row)});
  for (std::size_t i = 0; i < constant.device[0].size(); ++i)
    CHECK(constant.device[0][i] == static_cast<double>(static_cast<float>(beta.values[i % 24])));
  const TensorType none{Shape{0, 24}, DType::kF32}, no_row{Shape{0}, DType::kF32};
  check_equal(run_on_both("layer_norm", kEpsilon, {empty(none), empty(weight), empty(weight)},
                          {empty(none), empty(no_row), empty(no_row)}));
  check_equal(run_on_both("layer_norm_grad_weight", {},
                          {empty(none), empty(no_row), empty(no_row), empty(none)},
                          {whole(weight, 1, 5), whole(weight, 2, 5)}));
}

// Products are halves below 2^5 and their sums below 2^23: exact in any order.
TEST_CASE("gradients of norm weights are exact for whole numbers of any shape" *
          doctest::skip(!has_gpu())) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes = {
      {1, 8},      {37, 1023},  {1000, 1600}, {200, 1600}, {3000, 1608}, {2501, 832},
      {4101, 400}, {20'011, 8}, {33, 40'000}, {20'000, 3}, {3, 150'000}};
  for (const auto& [rows, n] : shapes)
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
      CAPTURE(rows);
      CAPTURE(n);
      const DType wide = dtype == DType::kF64 ? dtype : DType::kF32;
      const TensorType type{Shape{rows, n}, dtype}, row{Shape{rows}, wide}, weight{Shape{n}, wide};
      const TestOperand x = whole(type, 1, 7), dy = whole(type, 2, 7), mean = of_value(row, 3),
                        rstd = of_value(row, 0.5);
      for (const bool accumulate : {false, true}) {
        check_equal(run_on_both("layer_norm_grad_weight", {}, {x, mean, rstd, dy},
                                {whole(weight, 3, 9), whole(weight, 4, 9)}, accumulate));
        check_equal(run_on_both("rms_norm_grad_weight", {}, {x, rstd, dy}, {whole(weight, 5, 9)},
                                accumulate));
      }
    }
}

TEST_CASE("extrema let NaN win, share ties and know infinities, along any dim" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    const DType wide = dtype == DType::kF64 ? dtype : DType::kF32;
    TestOperand x = whole({Shape{7, 40, 9}, dtype}, 1, 4);
    for (std::size_t i = 0; i < x.values.size(); i += 501) x.values[i] = kNan;
    for (std::size_t i = 0; i < 9; ++i) x.values[i * 40 + 5] = i % 2 == 0 ? kInfinity : -kInfinity;
    for (const Integers& dims :
         std::vector<Integers>{{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}, {}}) {
      Integers extents;
      for (std::int64_t dim = 0; dim < 3; ++dim)
        if (std::find(dims.begin(), dims.end(), dim) == dims.end())
          extents.push_back(x.type.shape[static_cast<std::size_t>(dim)]);
      const TensorType result{Shape(extents), dtype}, counts{Shape(extents), wide};
      for (const char* kind : {"reduce_max", "reduce_min"}) {
        CAPTURE(std::string(kind));
        const BothResults extremum = run_on_both(kind, {{"dims", dims}}, {x}, {empty(result)});
        check_equal(extremum);
        const TestOperand y{.type = result, .values = extremum.reference[0]};
        const BothResults count =
            run_on_both("extremum_count", {{"dims", dims}}, {x, y}, {whole(counts, 2, 3)}, true);
        check_equal(count);
        const BothResults plain =
            run_on_both("extremum_count", {{"dims", dims}}, {x, y}, {empty(counts)});
        const TestOperand shares{.type = counts, .values = plain.reference[0]};
        for (const DType of_dy : {dtype, DType::kF32}) {
          const TensorType gradient{Shape(extents), of_dy};
          const BothResults dx =
              run_on_both("extremum_grad", {{"dims", dims}}, {x, y, shares, whole(gradient, 3, 50)},
                          {empty({x.type.shape, of_dy})});
          check_close(dx.device[0], dx.reference[0], 0, 2 * half_unit(of_dy));
        }
      }
    }
  }
}

TEST_CASE("sums of integers are exact and wrap, over all elements, nothing and every third" *
          doctest::skip(!has_gpu())) {
  TestOperand x = whole({Shape{1'000'003}, DType::kI32}, 1, 2'000'000'000);
  const Integers all{0};
  check_equal(run_on_both("reduce_sum", {{"dims", all}, {"out_dtype", "i64"}}, {x},
                          {empty({Shape(), DType::kI64})}));
  check_equal(run_on_both("reduce_sum", {{"dims", all}}, {x}, {empty({Shape(), DType::kI32})}));
  check_equal(run_on_both("reduce_max", {{"dims", all}}, {x}, {empty({Shape(), DType::kI32})}));
  const TestOperand bits = whole({Shape{30'011, 3}, DType::kBool}, 2, 2);
  check_equal(run_on_both("reduce_sum", {{"dims", all}, {"out_dtype", "i32"}}, {bits},
                          {whole({Shape{3}, DType::kI32}, 3, 9)}, true));
  const TestOperand nothing = empty({Shape{0, 4}, DType::kI32});
  for (const char* kind : {"reduce_sum", "reduce_max", "reduce_min"}) {
    CAPTURE(std::string(kind));
    check_equal(
        run_on_both(kind, {{"dims", all}}, {nothing}, {whole({Shape{4}, DType::kI32}, 4, 9)}));
  }
}

TEST_CASE("one sum over ten million values is put together from all blocks" *
          doctest::skip(!has_gpu())) {
  const TestOperand x = whole({Shape{10'000'019}, DType::kF32}, 1, 2);
  check_equal(
      run_on_both("reduce_sum", {{"dims", Integers{0}}}, {x}, {empty({Shape(), DType::kF32})}));
}

TEST_CASE("softmax of masked rows, of one element and of a row of -infinity is the reference's" *
          doctest::skip(!has_gpu())) {
  const Attributes last = {{"dims", Integers{1}}};
  for (const DType dtype : {DType::kF32, DType::kBF16})
    for (const std::int64_t n : {1, 5, 64, 2000}) {
      const TensorType type{Shape{4, n}, dtype}, row{Shape{4}, dtype}, sum{Shape{4}, DType::kF32};
      TestOperand x = random(type, 1, 500);
      for (std::int64_t i = 0; i < n; ++i) {
        x.values[static_cast<std::size_t>(n + i)] = -kInfinity;
        if (i % 2 == 1) x.values[static_cast<std::size_t>(2 * n + i)] = -kInfinity;
      }
      const BothResults max = run_on_both("reduce_max", last, {x}, {empty(row)});
      check_equal(max);
      const TestOperand maxima{.type = row, .values = max.reference[0]};
      const BothResults sums = run_on_both("reduce_sum_exp", last, {x, maxima}, {empty(sum)});
      check_close(sums.device[0], sums.reference[0], 0, 1e-4);
      const TestOperand totals{.type = sum, .values = sums.reference[0]};
      const BothResults y = run_on_both("softmax", last, {x, maxima, totals}, {empty(type)});
      check_close(y.device[0], y.reference[0], 1e-30, 1e-4 + 2 * half_unit(dtype));
    }
}

TEST_CASE("a running statistic moves only where something was counted" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const TensorType type{Shape{1000}, dtype};
    TestOperand count = whole(type, 2, 3);
    const BothResults results = run_on_both("running_statistic", {{"momentum", 0.25}},
                                            {whole(type, 1, 64), count}, {whole(type, 3, 64)});
    check_equal(results);
    CHECK(results.device[0] != whole(type, 3, 64).values);
  }
}

}  // namespace sextant::norm_test
