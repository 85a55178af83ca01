// Element types on the way: where casts stand, in which type reductions run, what is exact.
#include "core/base/error.h"
#include "sbp/boxing_search.h"
#include "tests/sbp/boxing_cases.h"
#include "tests/sbp/boxing_oracle.h"

#include <doctest/doctest.h>

#include <string>
#include <tuple>
#include <vector>

namespace sextant::boxing_dtype_test {
namespace {

using oracle::all_words;
using oracle::mesh;

const std::vector<DType> kTypes = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                                   DType::kI64, DType::kI32, DType::kBool};

BoxingRequest request(const char* from, const Placement& from_placement, const char* to,
                      const Placement& to_placement, DType dtype, DType to_dtype,
                      const Shape& shape = Shape{8, 8}) {
  BoxingRequest request = oracle::request_by_bytes(shape, from_placement, parse_nd_sbp(from),
                                                   to_placement, parse_nd_sbp(to));
  request.type.dtype = dtype;
  request.to_dtype = to_dtype;
  return request;
}

std::string steps(const BoxingRequest& request) {
  std::string text;
  for (const BoxingStep& step : plan_boxing(request).steps)
    text += (text.empty() ? "" : "; ") + to_string(step);
  return text;
}

// 1 + 1 + 1 + 256 in bf16, whose integers are even from 256 on, is not 259. Ring of 4, chunk by
// chunk: whatever the order, an odd sum beyond 256 is rounded.
TEST_CASE("G15: bf16 shares 256, 1, 1, 1 wanted in f32 are added in f32, to 259") {
  const Placement placement = mesh({4});
  BoxingRequest asked =
      request("P(sum)", placement, "B", placement, DType::kBF16, DType::kF32, Shape{1});
  const auto sum = [&] {
    oracle::Held held = {{{0, 256}}, {{0, 1}}, {{0, 1}}, {{0, 1}}};
    oracle::Sent sent;
    for (const BoxingStep& step : plan_boxing(asked).steps)
      held = oracle::execute(step, Shape{1}, held, placement, placement, sent);
    return held.front().at(0);
  };
  CHECK(steps(asked) == "cast: bf16 -> f32; all_reduce over axis 0: P(sum) -> B");
  CHECK(plan_boxing(asked).steps.back().dtype == DType::kF32);
  CHECK(sum() == 259);
  // The type of the reduction is a choice of the caller, and part of the plan.
  asked.reduce_dtype = DType::kBF16;
  CHECK(steps(asked) == "all_reduce over axis 0: P(sum) -> B; cast: bf16 -> f32");
  CHECK((sum() == 256 || sum() == 260));
  asked.to_dtype = DType::kBF16;
  asked.reduce_dtype = DType::kF32;
  CHECK(steps(asked) ==
        "cast: bf16 -> f32; reduce_scatter over axis 0: P(sum) -> S(0); cast: f32 -> bf16; "
        "all_gather over axis 0: S(0) -> B");
  CHECK(sum() == 260);  // 259 rounded once
}

TEST_CASE("casts stand where fewer bytes move") {
  const Placement placement = mesh({4}), other = mesh({4}, 4);
  // Down before a gather, up after it.
  CHECK(steps(request("S(0)", placement, "B", placement, DType::kF32, DType::kBF16)) ==
        "cast: f32 -> bf16; all_gather over axis 0: S(0) -> B");
  CHECK(steps(request("S(0)", placement, "B", placement, DType::kBF16, DType::kF32)) ==
        "all_gather over axis 0: S(0) -> B; cast: bf16 -> f32");
  // An all_reduce would gather in f32.
  CHECK(steps(request("P(sum)", placement, "B", placement, DType::kF32, DType::kBF16)) ==
        "reduce_scatter over axis 0: P(sum) -> S(0); cast: f32 -> bf16; all_gather over axis 0: "
        "S(0) -> B");
  CHECK(steps(request("S(0)", placement, "S(0)", other, DType::kF32, DType::kBF16)) ==
        "cast: f32 -> bf16; transfer: S(0) -> S(0)");
  // Slices are cast, not what is thrown away.
  CHECK(steps(request("B", placement, "S(0)", placement, DType::kF32, DType::kBF16)) ==
        "local: B -> S(0); cast: f32 -> bf16");
}

TEST_CASE("partial values are cast up, and reduced before they are cast down") {
  const Placement placement = mesh({4});
  CHECK(steps(request("P(sum)", placement, "P(sum)", placement, DType::kBF16, DType::kF32)) ==
        "cast: bf16 -> f32");
  CHECK(steps(request("P(sum)", placement, "P(sum)", placement, DType::kF32, DType::kBF16)) ==
        "reduce_scatter over axis 0: P(sum) -> S(0); cast: f32 -> bf16; local: S(0) -> P(sum)");
  CHECK(steps(request("P(max)", placement, "B", placement, DType::kI32, DType::kF32)) ==
        "all_reduce over axis 0: P(max) -> B; cast: i32 -> f32");
}

TEST_CASE("reductions run in the side that holds every value of the other, else in the source's") {
  const Placement placement = mesh({2});
  const auto type = [&](DType from, DType to) {
    return reduction_type(request("P(sum)", placement, "B", placement, from, to));
  };
  CHECK(type(DType::kBF16, DType::kF32) == DType::kF32);
  CHECK(type(DType::kF32, DType::kBF16) == DType::kF32);
  CHECK(type(DType::kI32, DType::kI64) == DType::kI64);
  CHECK(type(DType::kBool, DType::kI32) == DType::kI32);
  CHECK(type(DType::kBF16, DType::kF16) == DType::kBF16);
  CHECK(type(DType::kI32, DType::kF32) == DType::kI32);
  CHECK(type(DType::kF32, DType::kI64) == DType::kF32);
}

// Bits of the significand and of the exponent; integers of n bits need n - 1 bits beside the sign.
struct Format {
  bool is_integer;
  int significand, exponent;
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return {false, 53, 11};
    case DType::kF32:
      return {false, 24, 8};
    case DType::kBF16:
      return {false, 8, 8};
    case DType::kF16:
      return {false, 11, 5};
    case DType::kI64:
      return {true, 63, 0};
    case DType::kI32:
      return {true, 31, 0};
    case DType::kBool:
      return {true, 1, 0};
    case DType::kE4M3:
      return {false, 4, 4};
    case DType::kE5M2:
      return {false, 3, 5};
    case DType::kU8:
      return {true, 8, 0};
  }
  return {};
}

TEST_CASE("a type holds every value of another exactly if it has the bits for them") {
  for (const DType wide : kTypes)
    for (const DType narrow : kTypes) {
      const Format w = format_of(wide), n = format_of(narrow);
      const bool holds = w.significand >= n.significand &&
                         (n.is_integer || (!w.is_integer && w.exponent >= n.exponent));
      CAPTURE(to_string(wide));
      CAPTURE(to_string(narrow));
      CHECK(holds_every_value(wide, narrow) == holds);
    }
}

TEST_CASE("boxing keeps the global value with casts between all pairs of words") {
  const std::vector<NdSbp> words =
      all_words(2, {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()});
  const std::vector<std::tuple<DType, DType, std::optional<DType>>> types = {
      {DType::kBF16, DType::kF32, std::nullopt}, {DType::kF32, DType::kBF16, std::nullopt},
      {DType::kBF16, DType::kBF16, DType::kF32}, {DType::kBF16, DType::kF16, std::nullopt},
      {DType::kI32, DType::kF32, std::nullopt},  {DType::kF32, DType::kI32, DType::kF64}};
  const Placement source = mesh({2, 2});
  for (const Placement& target : {mesh({2, 2}), mesh({2, 2}, 3), mesh({2, 2}, 8)})
    for (const auto& [from_dtype, to_dtype, reduce_dtype] : types)
      for (const NdSbp& from : words)
        for (const NdSbp& to : words) {
          BoxingRequest asked = oracle::request_by_bytes(Shape{5, 3}, source, from, target, to);
          asked.type.dtype = from_dtype;
          asked.to_dtype = to_dtype;
          asked.reduce_dtype = reduce_dtype;
          oracle::check_boxing(asked, 20);  // all sums fit 8 bits: no cast rounds
        }
}

}  // namespace
}  // namespace sextant::boxing_dtype_test
