// The loss and embeddings where they are odd: masked rows, ignored and impossible labels, one
// class, shards of the classes, rows that no 16 bytes divide, ids of nobody, one id for all.
#include "backends/cuda/kernels/lookup/loss.h"

#include "tests/cuda/both_calls.h"
#include "tests/cuda/call_on_both.h"
#include "tests/cuda/gpu.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sextant::loss_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TestOperand random(const TensorType& type, std::uint64_t salt, double range) {
  return {.type = type, .values = digits(type.shape.elements(), salt, range)};
}
TestOperand whole(const TensorType& type, std::uint64_t salt, std::int64_t below) {
  return {.type = type, .values = whole_numbers(type.shape.elements(), salt, below)};
}
TestOperand empty(const TensorType& type) {
  return {.type = type,
          .values = std::vector<double>(static_cast<std::size_t>(type.shape.elements()), 0.0)};
}

// Five rows: plain, all -infinity, every other -infinity, one +infinity, large and far apart.
TestOperand odd_logits(std::int64_t classes, DType dtype) {
  TestOperand x = random({Shape{5, classes}, dtype}, 1, 20);
  for (std::int64_t i = 0; i < classes; ++i) {
    const auto at = [&](std::int64_t row) -> double& {
      return x.values[static_cast<std::size_t>(row * classes + i)];
    };
    at(1) = -kInfinity;
    if (i % 2 == 1) at(2) = -kInfinity;
    if (i == classes / 2) at(3) = kInfinity;
    at(4) *= 2000;
  }
  // The reference sees what the device does: values that the type holds.
  std::vector<std::byte> bytes(x.values.size() * sizeof(double));
  store_from_double(dtype, x.values, bytes.data());
  load_as_double(dtype, bytes.data(), x.values);
  return x;
}

DType wide_of(DType dtype) { return dtype == DType::kF64 ? dtype : DType::kF32; }

double half_unit(DType dtype) {
  return dtype == DType::kBF16  ? 0x1p-8
         : dtype == DType::kF16 ? 0x1p-11
         : dtype == DType::kF32 ? 0x1p-24
                                : 0x1p-53;
}

// A thread adds up to 65,536 / 32 numbers of one sign: the sum is off by 2^-13 of itself, and the
// exponentials of 16-bit types by 2^-20; of f64 nothing to speak of.
double bound_of(DType dtype) { return dtype == DType::kF64 ? 1e-11 : 0x1p-12; }

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

}  // namespace

TEST_CASE("maxima and sums of rows are the reference's for odd logits, alone and in one pass" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : kTypes)
    for (const std::int64_t classes : {1, 2, 7, 31, 1000, 1024, 1025, 50'257, 50'304}) {
      CAPTURE(classes);
      CAPTURE(std::string(to_string(dtype)));
      const TestOperand x = odd_logits(classes, dtype);
      const TensorType row{Shape{5}, wide_of(dtype)};
      const BothResults max = run_on_both("row_max", {}, {x}, {empty(row)});
      check_equal(max);
      const TestOperand maxima{.type = row, .values = max.reference[0]};
      const BothResults sum = run_on_both("row_sum_exp", {}, {x, maxima}, {empty(row)});
      check_close(sum.device[0], sum.reference[0], 0, bound_of(dtype));

      TwinTensor logits(x.type, x.values), both_max(row, empty(row).values),
          both_sum(row, empty(row).values);
      RowStatisticsArguments arguments;
      arguments.dtype = dtype;
      arguments.x = logits.on_device().data;
      arguments.max = both_max.on_device().data;
      arguments.sum = both_sum.on_device().data;
      arguments.rows = 5;
      arguments.classes = classes;
      SEXTANT_CUDA(enqueue_row_statistics(arguments, nullptr));
      check_close(both_max.device_values(), max.reference[0], 0, 0);
      check_close(both_sum.device_values(), sum.reference[0], 0, bound_of(dtype));
    }
}

TEST_CASE("the loss leaves ignored labels out and adds to what is there" *
          doctest::skip(!has_gpu())) {
  for (const DType labels_dtype : {DType::kI32, DType::kI64})
    for (const std::int64_t rows : {1, 1000, 40'000}) {
      CAPTURE(rows);
      const TensorType row{Shape{rows}, DType::kF32}, scalar{Shape(), DType::kF32};
      TestOperand labels = whole({Shape{rows}, labels_dtype}, 1, 9);
      for (double& label : labels.values)
        if (label == 3) label = -7;
      TestOperand sum = whole(row, 2, 5);
      for (double& value : sum.values) value += 1;
      const TestOperand x = empty({Shape{rows, 9}, DType::kBF16}), max = random(row, 3, 4),
                        picked = random(row, 4, 4);
      const auto inputs = std::vector{x, max, sum, picked, labels};
      for (const bool accumulate : {false, true}) {
        const BothResults results =
            run_on_both("cross_entropy", {{"ignore_index", std::int64_t{-7}}}, inputs,
                        {whole(scalar, 5, 9), whole(scalar, 6, 9)}, accumulate);
        // Sums in f64 of terms in f32.
        check_close(results.device[0], results.reference[0], 1e-2, 1e-6);
        check_close(results.device[1], results.reference[1], 0, 0);
        CHECK_FALSE(results.fault.has_value());
      }
    }
}

TEST_CASE("a label that is no class and not ignored is a fault that names the operator" *
          doctest::skip(!has_gpu())) {
  const TensorType row{Shape{3}, DType::kF32}, scalar{Shape(), DType::kF32};
  const auto run = [&](double label) {
    return run_on_both("cross_entropy", {},
                       {empty({Shape{3, 4}, DType::kF32}),
                        empty(row),
                        whole(row, 1, 1),
                        empty(row),
                        {.type = {Shape{3}, DType::kI32}, .values = {0, label, 3}}},
                       {empty(scalar), empty(scalar)});
  };
  for (const double label : {3.0, -100.0}) {
    CHECK_FALSE(run(label).fault.has_value());
    CHECK_FALSE(run(label).refusal.has_value());
  }
  for (const double label : {4.0, -1.0}) {
    const BothResults results = run(label);
    CHECK(results.fault.value() ==
          "operator 'under test' (cross_entropy): a label is neither a class, 0 to 3, nor "
          "ignore_index -100");
    CHECK(results.refusal.has_value());
  }
}

TEST_CASE("shards of the classes pick and differentiate as the whole does" *
          doctest::skip(!has_gpu())) {
  constexpr std::int64_t kClasses = 2051, kCut = 1001;
  for (const DType dtype : kTypes)
    for (const bool is_smoothed : {false, true}) {
      Attributes attributes{{"ignore_index", std::int64_t{-1}}};
      if (is_smoothed) {
        attributes.set("smoothing", 0.25);
        attributes.set("classes", kClasses);
      }
      const TensorType row{Shape{6}, wide_of(dtype)}, scalar{Shape(), wide_of(dtype)};
      const TestOperand labels{.type = {Shape{6}, DType::kI32},
                               .values = {0, kCut - 1, kCut, kClasses - 1, -1, 5}};
      TestOperand max = random(row, 2, 1), sum = whole(row, 3, 3), d_loss = random(scalar, 4, 8);
      for (double& value : max.values) value += 3;
      for (double& value : sum.values) value += 1000;
      for (const auto& [first, count] :
           std::vector<std::pair<std::int64_t, std::int64_t>>{{0, kCut}, {kCut, kClasses - kCut}}) {
        TestOperand x = random({Shape{6, count}, dtype}, 5, 3);
        x.offsets = {0, first};
        x.global = Shape{6, kClasses};
        check_equal(run_on_both("pick", {}, {x, labels}, {empty(row)}));
        for (const bool accumulate : {false, true}) {
          TestOperand dx = random({Shape{6, count}, dtype}, 6, 1);
          dx.offsets = x.offsets;
          dx.global = x.global;
          const BothResults results = run_on_both("cross_entropy_grad", attributes,
                                                  {x, max, sum, labels, d_loss}, {dx}, accumulate);
          // dloss times probabilities below 1: 8 times a few units of 2^-24, then one rounding.
          const double bound = dtype == DType::kF64 ? 1e-14 : 64 * 0x1p-20;
          check_close(results.device[0], results.reference[0], bound, 2 * half_unit(dtype));
        }
      }
    }
}

TEST_CASE("gradients of logits are the reference's where no 16 bytes divide a row" *
          doctest::skip(!has_gpu())) {
  for (const DType dtype : kTypes)
    for (const std::int64_t classes : {1, 3, 1023, 50'257}) {
      CAPTURE(classes);
      const TensorType row{Shape{5}, wide_of(dtype)}, scalar{Shape(), wide_of(dtype)};
      const TestOperand x = random({Shape{5, classes}, dtype}, 1, 5),
                        labels = whole({Shape{5}, DType::kI64}, 2, classes);
      TestOperand sum = whole(row, 3, 3), max = empty(row), d_loss = random(scalar, 4, 8);
      for (double& value : sum.values) value += 50;
      for (double& value : max.values) value = 5;
      const BothResults results =
          run_on_both("cross_entropy_grad", {}, {x, max, sum, labels, d_loss}, {empty(x.type)});
      const double bound = dtype == DType::kF64 ? 1e-14 : 64 * 0x1p-20;
      check_close(results.device[0], results.reference[0], bound, 2 * half_unit(dtype));
    }
}

TEST_CASE("ids outside of the vocabulary give zeros and a fault, those of other shards zeros" *
          doctest::skip(!has_gpu())) {
  for (const std::int64_t width : {3, 64}) {
    const TensorType y{Shape{5, width}, DType::kBF16};
    const auto run = [&](double id) {
      TestOperand table = whole({Shape{10, width}, DType::kBF16}, 1, 100);
      table.offsets = {20, 0};
      table.global = Shape{40, width};
      return run_on_both("embedding", {},
                         {{.type = {Shape{5}, DType::kI32}, .values = {20, 29, 19, 30, id}}, table},
                         {whole(y, 2, 100)});
    };
    for (const double id : {0.0, 39.0, 25.0}) {
      const BothResults results = run(id);
      check_equal(results);
      CHECK_FALSE(results.fault.has_value());
    }
    for (const double id : {40.0, -1.0}) {
      const BothResults results = run(id);
      const std::vector<double>& y = results.device[0];
      CHECK(std::all_of(y.end() - width, y.end(), [](double value) { return value == 0; }));
      CHECK(results.refusal.has_value());
      CHECK(results.fault.value() ==
            "operator 'under test' (embedding): an id is not one of 0 to 39");
    }
  }
}

// Whole numbers whose sums stay below 2^24: exact in any order.
TEST_CASE("gradients of embeddings add every position once, however often an id occurs" *
          doctest::skip(!has_gpu())) {
  struct Case {
    std::int64_t positions, vocabulary, used, width;
  };
  for (const Case& c : std::vector<Case>{{0, 5, 5, 8},
                                         {1, 1, 1, 1},
                                         {32, 4, 1, 40},
                                         {33, 4, 1, 40},
                                         {1000, 1000, 1000, 257},
                                         {5000, 300, 60, 264},
                                         {140'000, 7, 1, 16},
                                         {140'000, 50'000, 2000, 8},
                                         {64, 5000, 5000, 1024}})
    for (const DType dtype : kTypes)
      for (const DType ids_dtype : {DType::kI32, DType::kI64}) {
        CAPTURE(c.positions);
        CAPTURE(c.vocabulary);
        CAPTURE(std::string(to_string(dtype)));
        TestOperand ids = whole({Shape{c.positions}, ids_dtype}, 1, c.used);
        if (c.positions > 100) ids.values[50] = -1;
        const TensorType dy{Shape{c.positions, c.width}, dtype},
            table{Shape{c.vocabulary, c.width}, wide_of(dtype)};
        for (const bool accumulate : {false, true})
          check_equal(run_on_both(
              "embedding_grad",
              {{"vocab", c.vocabulary}, {"out_dtype", std::string(to_string(wide_of(dtype)))}},
              {ids, whole(dy, 2, 100)}, {whole(table, 3, 9)}, accumulate));
      }
}

TEST_CASE("gradients of embeddings have the same bits twice, also where lists are long" *
          doctest::skip(!has_gpu())) {
  const TestOperand ids = whole({Shape{20'000}, DType::kI32}, 1, 40);
  const TestOperand dy = random({Shape{20'000, 264}, DType::kF32}, 2, 3);
  const auto run = [&] {
    return run_on_both("embedding_grad", {{"vocab", std::int64_t{500}}}, {ids, dy},
                       {empty({Shape{500, 264}, DType::kF32})})
        .device[0];
  };
  CHECK(run() == run());
}

}  // namespace sextant::loss_test
