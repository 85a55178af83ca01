// Acceptance cases of boxing, executed on CPU devices.
#include "core/base/check.h"
#include "tests/conformance/operators/boxing_runner.h"
#include "tests/conformance/operators/sharding.h"

#include <doctest/doctest.h>

#include <numeric>
#include <vector>

namespace sextant::boxing_acceptance_test {
namespace {

CpuOptions inline_queues() {
  CpuOptions options;
  options.queues = CpuQueueKind::kInline;
  return options;
}

BoxingCase on_one_line(const TensorType& type, std::int64_t devices, const std::string& from,
                       const std::string& to) {
  const Placement line = consecutive_placement({{"x", devices}});
  return {type, line, line, parse_nd_sbp(from), parse_nd_sbp(to)};
}

Piece counted(const TensorType& type) {
  Piece tensor = blank(type);
  std::iota(tensor.values.begin(), tensor.values.end(), 0.0);
  return tensor;
}

// One element of dim 0, taken on each device of what it holds, then put together again.
std::vector<double> row_of(const BoxingCase& boxing, std::int64_t row) {
  const BoxingOutcome outcome =
      run_boxing(boxing, plan_boxing(boxing.request()).steps,
                 pieces_on_source(boxing, counted(boxing.type)), inline_queues());
  const TensorType type{boxing.type.shape.with_extent(0, 1), boxing.type.dtype};
  std::vector<Piece> rows;
  for (const Piece& piece : outcome.pieces) {
    Shard box = piece.box;
    box.dims[0] = {.offset = 0, .extent = 1};
    std::vector<Piece> out{
        {.global = type,
         .box = box,
         .values = std::vector<double>(static_cast<std::size_t>(box.local_shape().elements()))}};
    run_operator("slice", {{"dim", 0}, {"start", row}, {"stop", row + 1}}, {piece}, out);
    rows.push_back(std::move(out[0]));
  }
  return collect(rows, boxing.to, boxing.target.hierarchy()).values;
}

// x = 0..59 as 3 x 4 x 5, rows on 2 devices: 2 and 1. Row 1 is 20..39 in whichever layout is chosen
// to take it.
TEST_CASE("a row of a dim that was split unevenly is the same in every layout (G04)") {
  std::vector<double> expected(20);
  std::iota(expected.begin(), expected.end(), 20.0);
  for (const char* to : {"S(1)", "S(2)", "B"})
    for (const DType dtype : {DType::kF32, DType::kI64, DType::kF16})
      CHECK(row_of(on_one_line({Shape{3, 4, 5}, dtype}, 2, "S(0)", to), 1) == expected);
}

TEST_CASE("any row of any uneven split is the same in every layout (G04)") {
  for (std::int64_t devices = 2; devices <= 5; ++devices)
    for (std::int64_t rows = 1; rows <= 6; ++rows)
      for (const char* to : {"S(1)", "B"})
        for (std::int64_t row = 0; row < rows; ++row) {
          std::vector<double> expected(7);
          std::iota(expected.begin(), expected.end(), static_cast<double>(7 * row));
          REQUIRE(row_of(on_one_line({Shape{rows, 7}, DType::kI32}, devices, "S(0)", to), row) ==
                  expected);
        }
}

// ---------------------------------------------------------------- casts

// One element; the devices hold these shares of it.
std::vector<Piece> shares(const BoxingCase& boxing, const std::vector<double>& values) {
  std::vector<Piece> pieces;
  for (const double value : values) pieces.push_back(whole(boxing.type, {value}));
  return pieces;
}

struct SumOfShares {
  DType from, to;
  std::vector<double> shares;
  double expected;
  std::optional<DType> reduce = {};
};

// The dtype in which the plan reduces, and what arrives everywhere.
std::pair<DType, double> reduced(const SumOfShares& sum) {
  BoxingCase boxing = on_one_line({Shape{1}, sum.from},
                                  static_cast<std::int64_t>(sum.shares.size()), "P(sum)", "B");
  boxing.to_dtype = sum.to;
  boxing.reduce_dtype = sum.reduce;
  const std::vector<BoxingStep> steps = plan_boxing(boxing.request()).steps;
  const BoxingOutcome outcome =
      run_boxing(boxing, steps, shares(boxing, sum.shares), inline_queues());
  for (const BoxingStep& step : steps)
    if (step.kind == BoxingKind::kCollective) return {step.dtype, outcome.found.values[0]};
  return {sum.from, outcome.found.values[0]};
}

// 256, 1, 1, 1 in bf16, whose numbers from 256 on are 2 apart.
TEST_CASE("partial values are cast up before they are reduced (G15)") {
  const std::vector<double> given{256, 1, 1, 1};
  CHECK(reduced({DType::kBF16, DType::kF32, given, 259}) == std::pair(DType::kF32, 259.0));
  // Asked for bf16 with a reduction in f32: 259 rounds once, to 260.
  CHECK(reduced({DType::kBF16, DType::kBF16, given, 260, DType::kF32}) ==
        std::pair(DType::kF32, 260.0));
  // A plan that reduces first gives what no order of bf16 sums can make 259.
  BoxingCase boxing = on_one_line({Shape{1}, DType::kBF16}, 4, "P(sum)", "B");
  boxing.to_dtype = DType::kF32;
  BoxingStep reduce;
  reduce.kind = BoxingKind::kCollective;
  reduce.group_axes = {0};
  reduce.from = boxing.from;
  reduce.to = boxing.to;
  reduce.dtype = reduce.to_dtype = DType::kBF16;
  BoxingStep cast;
  cast.kind = BoxingKind::kCast;
  cast.from = cast.to = boxing.to;
  cast.dtype = DType::kBF16;
  const double found =
      run_boxing(boxing, std::vector{reduce, cast}, shares(boxing, given), inline_queues())
          .found.values[0];
  CHECK((found == 256 || found == 260));
}

TEST_CASE("every cast up comes before the reduction, wherever rounding or range would show (G15)") {
  const double two31 = 2147483648.0;
  for (const SumOfShares& sum : {
           SumOfShares{DType::kBF16, DType::kF64, {256, 1, 1}, 258},
           SumOfShares{DType::kF16, DType::kF32, {2048, 1, 1, 1}, 2051},
           SumOfShares{DType::kF16, DType::kF32, {65504, 65504}, 131008},
           SumOfShares{DType::kF32, DType::kF64, {16777216, 1, 1}, 16777218},
           SumOfShares{DType::kI32, DType::kI64, {two31 - 1, two31 - 1, 3}, 2 * two31 + 1},
           SumOfShares{DType::kI32, DType::kF64, {two31 - 1, 1}, two31},
           SumOfShares{DType::kBool, DType::kI32, {0, 1, 0}, 1},
       }) {
    CAPTURE(to_string(sum.from));
    CAPTURE(to_string(sum.to));
    CHECK(reduced(sum) == std::pair(sum.to, sum.expected));
  }
}

TEST_CASE("a cast down comes after the reduction") {
  // 259 rounds to 260 in bf16. In f16, 2049 alone would round to 2048 and the sum with 1 again.
  CHECK(reduced({DType::kF32, DType::kBF16, {256, 1, 1, 1}, 260}) == std::pair(DType::kF32, 260.0));
  CHECK(reduced({DType::kF32, DType::kF16, {2049, 1}, 2050}) == std::pair(DType::kF32, 2050.0));
  CHECK(reduced({DType::kI64, DType::kI32, {4294967296.0, -4294967295.0}, 1}) ==
        std::pair(DType::kI64, 1.0));
}

// ---------------------------------------------------------------- counts

TEST_CASE("boxing of counts that do not divide sums the tail too (G48)") {
  for (const std::int64_t count : {1, 7, 8191}) {
    BoxingCase boxing = on_one_line({Shape{count}, DType::kF32}, 8, "P(sum)", "B");
    std::vector<Piece> pieces;
    for (int rank = 0; rank < 8; ++rank)
      pieces.push_back(whole(boxing.type, std::vector<double>(static_cast<std::size_t>(count),
                                                              static_cast<double>(rank + 1))));
    const BoxingOutcome outcome =
        run_boxing(boxing, plan_boxing(boxing.request()).steps, pieces, inline_queues());
    for (const Piece& piece : outcome.pieces)
      CHECK(piece.values == std::vector<double>(static_cast<std::size_t>(count), 36.0));
  }
}

// Two devices gather to the second, which holds half of it already (G50): 4 bytes move, one way.
TEST_CASE("a gather to one of its own devices moves only what that device lacks (G50)") {
  const Placement pair = consecutive_placement({{"x", 2}});
  for (const int root : {0, 1}) {
    const BoxingCase boxing{{Shape{2}, DType::kF32},
                            pair,
                            {{{"y", 1}}, {Rank(root)}},
                            parse_nd_sbp("S(0)"),
                            parse_nd_sbp("B")};
    const BoxingOutcome outcome =
        run_boxing(boxing, plan_boxing(boxing.request()).steps,
                   pieces_on_source(boxing, counted(boxing.type)), inline_queues());
    CHECK(outcome.found.values == std::vector<double>{0, 1});
    CHECK(outcome.moved == std::vector<PairBytes>{{Rank(1 - root), Rank(root), Bytes(4)}});
  }
}

}  // namespace
}  // namespace sextant::boxing_acceptance_test
