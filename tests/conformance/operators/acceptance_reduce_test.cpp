// Acceptance cases about operators that need the whole of a dim that may be split: means (G02),
// running sums (G16), indices of extrema (G17), softmax (G21). Each case and random tensors like it
// run by every row of every operator.
#include "core/base/error.h"
#include "core/graphs/operator.h"
#include "core/operators/layers/softmax.h"
#include "core/operators/movement/sources.h"
#include "core/operators/reductions/arg_reduce.h"
#include "tests/conformance/operators/operator_runner.h"
#include "tests/conformance/operators/pieces.h"
#include "tests/conformance/operators/sharding.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace sextant::acceptance_reduce_test {
namespace {

using Values = std::vector<double>;
using Integers = std::vector<std::int64_t>;

Values numbers(std::int64_t count) {
  Values values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0);
  return values;
}

// One operator with attributes on one tensor, by every row.
Values by_every_row(const std::string& kind, const TensorType& type, const Values& values,
                    const Attributes& attributes) {
  LogicalGraph graph(builtin_operators());
  const TensorId x = add_input(graph, "x", 0, type);
  const TensorId y = add_op(graph, kind, {x}, attributes);
  return check_all_splits(graph, {{x, values}}).at(y);
}

TEST_CASE("G02: the mean of 0 to 11 is 5.5 and of one row 1.5, whatever is split") {
  const Attributes all = {{"dims", Integers{0, 1}}};
  CHECK(by_every_row("reduce_mean", {{3, 4}, DType::kF64}, numbers(12), all) == Values{5.5});
  CHECK(by_every_row("reduce_mean", {{1, 4}, DType::kF64}, numbers(4), all) == Values{1.5});
}

TEST_CASE("G16: a running sum goes on across shards") {
  const Attributes rows = {{"dim", std::int64_t{-1}}};
  const Values sums = by_every_row("cumsum", {{8, 1024}, DType::kF32}, Values(8 * 1024, 1.0), rows);
  for (std::size_t i = 0; i < sums.size(); ++i) CHECK(sums[i] == static_cast<double>(i % 1024 + 1));
  CHECK(by_every_row("cumsum", {{10}, DType::kF64}, Values(10, 1.0), rows) ==
        Values{1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  CHECK(by_every_row("cumsum", {{10}, DType::kI64}, Values(10, 1.0),
                     {{"dim", std::int64_t{0}}, {"reverse", true}, {"exclusive", true}}) ==
        Values{9, 8, 7, 6, 5, 4, 3, 2, 1, 0});
}

// What a builder makes of a tensor, by every row of every operator.
template <typename Build>
Values built_by_every_row(const TensorType& type, const Values& values, const Build& build) {
  LogicalGraph graph(builtin_operators());
  const TensorId x = add_input(graph, "x", 0, type);
  const TensorId y = build(graph, x);
  return check_all_splits(graph, {{x, values}}).at(y);
}

Values indices(const TensorType& type, const Values& values, std::int64_t dim, bool of_largest) {
  return built_by_every_row(type, values, [&](LogicalGraph& graph, TensorId x) {
    return of_largest ? argmax(graph, x, dim, "arg", 0) : argmin(graph, x, dim, "arg", 0);
  });
}

TEST_CASE("G17: the index of an extremum is the global one, the first of equals") {
  for (const DType dtype : {DType::kF64, DType::kBF16, DType::kI32}) {
    const TensorType four{{4}, dtype};
    CHECK(indices(four, {10, 5, 3, 8}, 0, true) == Values{0});
    CHECK(indices(four, {10, 5, 3, 8}, -1, false) == Values{2});
    CHECK(indices(four, {7, 1, 7, 2}, 0, true) == Values{0});
    CHECK(indices(four, {1, 7, 2, 7}, 0, true) == Values{1});
  }
}

// The obvious search along dim 1 of [2, n, 3].
Values first_indices(const Values& x, std::int64_t n, bool of_largest) {
  Values found;
  for (std::int64_t outer = 0; outer < 2; ++outer)
    for (std::int64_t inner = 0; inner < 3; ++inner) {
      const auto at = [&](std::int64_t i) {
        return x[static_cast<std::size_t>((outer * n + i) * 3 + inner)];
      };
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < n; ++i)
        if (of_largest ? at(i) > at(best) : at(i) < at(best)) best = i;
      found.push_back(static_cast<double>(best));
    }
  return found;
}

TEST_CASE("the index of an extremum is found along any dim among many equal elements") {
  Random random("indices");
  for (const std::int64_t n : {1, 2, 3, 5, 8}) {
    Values values(static_cast<std::size_t>(6 * n));
    for (double& value : values) value = static_cast<double>(random.integer(-1, 1));
    for (const bool of_largest : {true, false})
      CHECK(indices({{2, n, 3}, DType::kF64}, values, 1, of_largest) ==
            first_indices(values, n, of_largest));
  }
}

TEST_CASE("no index is looked for among no elements") {
  LogicalGraph graph(builtin_operators());
  const TensorId x = add_input(graph, "x", 0, {{2, 0}, DType::kF64});
  CHECK_THROWS_WITH_AS(argmax(graph, x, 1, "best", 0),
                       "best: dim 1 of 2x0 f64 has no elements, so none has an index", Error);
  CHECK_THROWS_WITH_AS(argmax(graph, x, 2, "best", 0),
                       "best: dim 2 of a tensor of 2 dims, wanted -2 to 1", Error);
}

Values probabilities(const TensorType& type, const Values& values, std::int64_t dim) {
  return built_by_every_row(type, values, [&](LogicalGraph& graph, TensorId x) {
    return softmax(graph, x, dim, "softmax", 0);
  });
}

// Given to six digits.
TEST_CASE("G21: softmax takes the global maximum first, whatever is split") {
  const TensorType row{{4}, DType::kF64}, column{{4, 1}, DType::kF64};
  check_six_digits(probabilities(row, {1000, 1001, 999, 1001}, 0),
                   {0.146963, 0.399486, 0.054065, 0.399486});
  check_six_digits(probabilities(row, {1, 2, 3, 4}, -1), {0.032059, 0.087144, 0.236883, 0.643914});
  check_six_digits(probabilities(column, {1, 2, 3, 4}, -2),
                   {0.032059, 0.087144, 0.236883, 0.643914});
}

TEST_CASE("softmax along any dim sums to one along it and keeps the ratios of exponentials") {
  Random random("softmax");
  for (const std::int64_t dim : {0, 1, 2}) {
    const Shape shape{3, 5, 4};
    Values x(60);
    for (double& value : x) value = static_cast<double>(random.integer(-8, 8));
    const Values y = probabilities({shape, DType::kF64}, x, dim - 3);
    Values sums(60, 0.0);
    const std::int64_t stride = dim == 0   ? 20
                                : dim == 1 ? 4
                                           : 1,
                       extent = shape[static_cast<std::size_t>(dim)];
    for (std::int64_t i = 0; i < 60; ++i) {
      const std::int64_t first = i - i / stride % extent * stride;
      const auto at = static_cast<std::size_t>(i), base = static_cast<std::size_t>(first);
      sums[base] += y[at];
      CHECK(y[at] / y[base] == doctest::Approx(std::exp(x[at] - x[base])).epsilon(1e-12));
      if (i / stride % extent == extent - 1) CHECK(sums[base] == doctest::Approx(1).epsilon(1e-14));
    }
  }
}

TEST_CASE("reductions of tensors of any size do not depend on the split") {
  Random random("sizes");
  for (const std::string kind : {"reduce_sum", "reduce_mean", "reduce_max", "reduce_min"}) {
    for (int instance = 0; instance < 12; ++instance) {
      const Shape shape{random.integer(0, 5), random.integer(1, 6), random.integer(1, 3)};
      Integers dims;
      for (const std::int64_t dim : {0, 1, 2})
        if (random.integer(0, 1) == 1) dims.push_back(dim);
      // A mean of nothing is NaN, which `collect` also uses for elements that nobody holds.
      if (kind == "reduce_mean" && shape[0] == 0) continue;
      Values values(static_cast<std::size_t>(shape.elements()));
      for (double& value : values) value = static_cast<double>(random.integer(-9, 9));
      by_every_row(kind, {shape, DType::kF64}, values,
                   {{"dims", dims}, {"keep_dims", random.integer(0, 1) == 1}});
    }
  }
}

}  // namespace
}  // namespace sextant::acceptance_reduce_test
