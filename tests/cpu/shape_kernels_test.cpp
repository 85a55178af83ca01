// Kernels that cut, join, look up and multiply per batch element, against numbers worked out by
// hand, on shards that do not begin at 0 and where they add to what is there.
#include "backends/cpu/kernels/shared/kernel.h"
#include "tests/cpu/kernel_call.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace sextant::shape_kernels_test {
namespace {

using Integers = std::vector<std::int64_t>;
using Values = std::vector<double>;

// Runs `check` for both tables and every element type that holds small integers.
void in_both_tables(const std::function<void(const KernelTable&, DType)>& check) {
  const KernelTable reference = reference_kernels(), fast = fast_kernels();
  for (const KernelTable* table : {&reference, &fast})
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16})
      check(*table, dtype);
}

Attributes cut(std::int64_t dim, std::int64_t start, std::int64_t stop) {
  return {{"dim", dim}, {"start", start}, {"stop", stop}};
}

TEST_CASE("a slice of a split dim is the shard's own part and zeros") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // x = 0 .. 4 over two ranks, 0 1 2 and 3 4; x[1..4) = 1 2 3.
    const auto part = [&](Values x, std::int64_t offset) {
      const auto count = static_cast<std::int64_t>(x.size());
      return KernelCall("slice", cut(0, 1, 4))
          .input({{{count}, dtype}, std::move(x), {offset}})
          .output({{{3}, dtype}, {9, 9, 9}, {}})
          .run(table)[0];
    };
    CHECK(part({0, 1, 2}, 0) == Values{1, 2, 0});
    CHECK(part({3, 4}, 3) == Values{0, 0, 3});
    CHECK(part({}, 5) == Values{0, 0, 0});
  });
}

TEST_CASE("a slice that accumulates adds its part and keeps the rest") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    CHECK(KernelCall("slice", cut(0, 1, 4))
              .input({{{3}, dtype}, {0, 1, 2}, {}})
              .output({{{3}, dtype}, {10, 20, 30}, {}}, true)
              .run(table)[0] == Values{11, 22, 30});
  });
}

TEST_CASE("the shards of a padded dim place their elements where they are in the whole") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // [1 2; 3 4], one row per rank, a row of zeros before and none after.
    const Attributes attributes = {
        {"dim", std::int64_t{0}}, {"before", std::int64_t{1}}, {"after", std::int64_t{0}}};
    const auto part = [&](Values x, std::int64_t offset) {
      return KernelCall("pad", attributes)
          .input({{{1, 2}, dtype}, std::move(x), {offset, 0}})
          .output({{{3, 2}, dtype}, Values(6, 9), {}})
          .run(table)[0];
    };
    CHECK(part({1, 2}, 0) == Values{0, 0, 1, 2, 0, 0});
    CHECK(part({3, 4}, 1) == Values{0, 0, 0, 0, 3, 4});
  });
}

TEST_CASE("concat puts its inputs side by side, a shard of the result what it holds of them") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // [1 2; 3 4] beside [5; 6]: [1 2 5; 3 4 6].
    const Attributes attributes = {{"dim", std::int64_t{1}}, {"extents", Integers{2, 1}}};
    const TestOperand a{{{2, 2}, dtype}, {1, 2, 3, 4}, {}}, b{{{2, 1}, dtype}, {5, 6}, {}};
    CHECK(KernelCall("concat", attributes)
              .input(a)
              .input(b)
              .output({{{2, 3}, dtype}, {}, {}})
              .run(table)[0] == Values{1, 2, 5, 3, 4, 6});
    CHECK(KernelCall("concat", attributes)
              .input(a)
              .input(b)
              .output({{{2, 2}, dtype}, {}, {0, 1}})
              .run(table)[0] == Values{2, 5, 4, 6});
    CHECK(KernelCall("concat", attributes)
              .input(a)
              .input(b)
              .output({{{2, 3}, dtype}, {10, 20, 30, 40, 50, 60}, {}}, true)
              .run(table)[0] == Values{11, 22, 35, 43, 54, 66});
  });
}

TEST_CASE("split is concat backwards, its outputs zero where the shard has nothing of them") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    const Attributes attributes = {{"dim", std::int64_t{0}}, {"extents", Integers{1, 0, 3}}};
    CHECK(KernelCall("split", attributes)
              .input({{{4}, dtype}, {1, 2, 3, 4}, {}})
              .output({{{1}, dtype}, {}, {}})
              .output({{{0}, dtype}, {}, {}})
              .output({{{3}, dtype}, {}, {}})
              .run(table) == std::vector<Values>{{1}, {}, {2, 3, 4}});
    CHECK(KernelCall("split", attributes)
              .input({{{2}, dtype}, {3, 4}, {2}})
              .output({{{1}, dtype}, {7}, {}})
              .output({{{0}, dtype}, {}, {}})
              .output({{{3}, dtype}, {7, 7, 7}, {}})
              .run(table) == std::vector<Values>{{0}, {}, {0, 3, 4}});
  });
}

TEST_CASE("moved elements keep every bit, whatever their type") {
  // Two i64 above 2^53 that no double tells apart, and two NaN with different payloads.
  const std::vector<std::uint64_t> words = {(std::uint64_t{1} << 62U) + 1, std::uint64_t{1} << 62U,
                                            0x7FF8000000000001U, 0x7FF8000000000002U};
  const KernelTable tables[] = {reference_kernels(), fast_kernels()};
  const std::vector<std::pair<std::string, Attributes>> moves = {
      {"reshape", {}},
      {"transpose", {{"permutation", Integers{0, 1}}}},
      {"slice", cut(0, 0, 2)},
      {"pad", {{"dim", std::int64_t{0}}, {"before", std::int64_t{0}}, {"after", std::int64_t{0}}}},
      {"split", {{"dim", std::int64_t{0}}, {"extents", Integers{2}}}},
      {"concat", {{"dim", std::int64_t{0}}, {"extents", Integers{2}}}}};
  for (const KernelTable& table : tables)
    for (const DType dtype : {DType::kI64, DType::kF64})
      for (const auto& [kind, attributes] : moves) {
        CAPTURE(kind);
        KernelCall call(kind, attributes);
        call.input({{{2, 2}, dtype}, {}, {}}).output({{{2, 2}, dtype}, {}, {}});
        std::memcpy(call.input_data(0), words.data(), 32);
        call.run(table);
        CHECK(std::memcmp(call.output_data(0), words.data(), 32) == 0);
      }
}

TEST_CASE("transpose of three dims moves each index to its place, and adds where it accumulates") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // x[i][j][k] = 4 i + 2 j + k; y[k][i][j].
    const auto call = [&](Values before, bool accumulate) {
      return KernelCall("transpose", {{"permutation", Integers{2, 0, 1}}})
          .input({{{2, 2, 2}, dtype}, {0, 1, 2, 3, 4, 5, 6, 7}, {}})
          .output({{{2, 2, 2}, dtype}, std::move(before), {}}, accumulate)
          .run(table)[0];
    };
    CHECK(call({}, false) == Values{0, 2, 4, 6, 1, 3, 5, 7});
    CHECK(call({8, 8, 8, 8, 8, 8, 8, 8}, true) == Values{8, 10, 12, 14, 9, 11, 13, 15});
  });
}

TEST_CASE("gather takes columns by index and leaves zeros for those of other shards") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // [1 2 3; 4 5 6], columns 2, 0, 5 (none), -1 (none).
    const auto call = [&](TestOperand x, DType index, Values before, bool accumulate) {
      return KernelCall("gather", {{"dim", std::int64_t{1}}})
          .input(std::move(x))
          .input({{{4}, index}, {2, 0, 5, -1}, {}})
          .output({{{2, 4}, dtype}, std::move(before), {}}, accumulate)
          .run(table)[0];
    };
    const TestOperand x{{{2, 3}, dtype}, {1, 2, 3, 4, 5, 6}, {}};
    const TestOperand last{{{2, 1}, dtype}, {3, 6}, {0, 2}};
    for (const DType index : {DType::kI32, DType::kI64}) {
      CHECK(call(x, index, Values(8, 9), false) == Values{3, 1, 0, 0, 6, 4, 0, 0});
      CHECK(call(last, index, Values(8, 9), false) == Values{3, 0, 0, 0, 6, 0, 0, 0});
      CHECK(call(x, index, Values(8, 10), true) == Values{13, 11, 10, 10, 16, 14, 10, 10});
    }
  });
}

TEST_CASE("the largest and the smallest index are outside like any other") {
  const KernelTable table = reference_kernels();
  KernelCall call("gather", {{"dim", std::int64_t{0}}});
  call.input({{{2}, DType::kF32}, {1, 2}, {3}}).input({{{2}, DType::kI64}, {}, {}});
  call.output({{{2}, DType::kF32}, {9, 9}, {}});
  const std::int64_t extremes[] = {std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()};
  std::memcpy(call.input_data(1), extremes, sizeof(extremes));
  CHECK(call.run(table)[0] == Values{0, 0});
}

TEST_CASE("scatter_add sums what has one index and drops what has none here") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // u[a][i][b] with one a, i = 0 .. 3, b = 2; indices 1 1 4 0 into 3: rows 0: u3, 1: u0 + u1.
    const auto call = [&](std::int64_t offset, std::int64_t rows) {
      return KernelCall("scatter_add", {{"dim", std::int64_t{1}}, {"extent", std::int64_t{3}}})
          .input({{{1, 4, 2}, dtype}, {1, 2, 3, 4, 5, 6, 7, 8}, {}})
          .input({{{4}, DType::kI32}, {1, 1, 4, 0}, {}})
          .output({{{1, rows, 2}, dtype}, {}, {0, offset, 0}})
          .run(table)[0];
    };
    CHECK(call(0, 3) == Values{7, 8, 4, 6, 0, 0});
    CHECK(call(1, 2) == Values{4, 6, 0, 0});
  });
}

TEST_CASE("take_along_dim picks one element each, add_along_dim brings them back") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // Rows [1 2 3] and [4 5 6]: picks 2 2 and 0 -1; backwards u = 1 2 and 3 4.
    const TestOperand indices{{{2, 2}, DType::kI32}, {2, 2, 0, -1}, {}};
    CHECK(KernelCall("take_along_dim", {{"dim", std::int64_t{1}}})
              .input({{{2, 3}, dtype}, {1, 2, 3, 4, 5, 6}, {}})
              .input(indices)
              .output({{{2, 2}, dtype}, {}, {}})
              .run(table)[0] == Values{3, 3, 4, 0});
    CHECK(KernelCall("add_along_dim", {{"dim", std::int64_t{1}}, {"extent", std::int64_t{3}}})
              .input({{{2, 2}, dtype}, {1, 2, 3, 4}, {}})
              .input(indices)
              .output({{{2, 3}, dtype}, {}, {}})
              .run(table)[0] == Values{0, 0, 3, 3, 0, 0});
  });
}

TEST_CASE("one_hot marks the class, on the shard that has it") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    const auto call = [&](std::int64_t offset, std::int64_t classes) {
      return KernelCall("one_hot", {{"extent", std::int64_t{3}}, {"dtype", std::string("f64")}})
          .input({{{3}, DType::kI32}, {2, 0, 3}, {}})
          .output({{{3, classes}, dtype}, {}, {0, offset}})
          .run(table)[0];
    };
    CHECK(call(0, 3) == Values{0, 0, 1, 1, 0, 0, 0, 0, 0});
    CHECK(call(2, 1) == Values{1, 0, 0});
  });
}

TEST_CASE("batch_matmul multiplies matrix by matrix, from either storage of both") {
  in_both_tables([](const KernelTable& table, DType dtype) {
    // [1 2] [1 3; 2 4] = [5 11];  [3 4] [0 1; 1 0] = [4 3].
    const Values w = {1, 3, 2, 4, 0, 1, 1, 0}, w_transposed = {1, 2, 3, 4, 0, 1, 1, 0};
    for (const bool x_t : {false, true})
      for (const bool w_t : {false, true}) {
        const Shape x_shape = x_t ? Shape{2, 2, 1} : Shape{2, 1, 2};
        const auto call = [&](Values before, bool accumulate) {
          return KernelCall("batch_matmul", {{"transpose_x", x_t}, {"transpose_w", w_t}})
              .input({{x_shape, dtype}, {1, 2, 3, 4}, {}})
              .input({{{2, 2, 2}, dtype}, w_t ? w_transposed : w, {}})
              .output({{{2, 1, 2}, dtype}, std::move(before), {}}, accumulate)
              .run(table)[0];
        };
        CHECK(call({}, false) == Values{5, 11, 4, 3});
        CHECK(call({1, 1, 1, 1}, true) == Values{6, 12, 5, 4});
      }
    // m x n = 3 x 2 with k = 1, stored transposed: not square, so rows and columns cannot be mixed
    // up.
    CHECK(KernelCall("batch_matmul", {{"transpose_x", true}, {"transpose_w", true}})
              .input({{{1, 1, 3}, dtype}, {1, 2, 3}, {}})
              .input({{{1, 2, 1}, dtype}, {10, 20}, {}})
              .output({{{1, 3, 2}, dtype}, {}, {}})
              .run(table)[0] == Values{10, 20, 20, 40, 30, 60});
    // A contraction over nothing is 0, without batch elements there is nothing.
    CHECK(KernelCall("batch_matmul", {})
              .input({{{1, 1, 0}, dtype}, {}, {}})
              .input({{{1, 0, 2}, dtype}, {}, {}})
              .output({{{1, 1, 2}, dtype}, {7, 7}, {}})
              .run(table)[0] == Values{0, 0});
    CHECK(KernelCall("batch_matmul", {})
              .input({{{0, 1, 2}, dtype}, {}, {}})
              .input({{{0, 2, 2}, dtype}, {}, {}})
              .output({{{0, 1, 2}, dtype}, {}, {}})
              .run(table)[0]
              .empty());
  });
}

}  // namespace
}  // namespace sextant::shape_kernels_test
