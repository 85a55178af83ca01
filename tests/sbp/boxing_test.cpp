// Boxing plans: executed on small tensors they keep the global value, move exactly the bytes they
// say, and no other sequence of steps moves fewer.
#include "sbp/boxing.h"

#include "core/base/error.h"
#include "tests/sbp/boxing_cases.h"
#include "tests/sbp/boxing_networks.h"
#include "tests/sbp/boxing_oracle.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace sextant::boxing_test {
namespace {

using oracle::all_words;
using oracle::check_boxing;
using oracle::mesh;
using oracle::mesh_on;

const std::vector<Sbp> kAlphabet = {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()};

BoxingPlan plan_bytes(const Shape& shape, const Placement& from_placement, const NdSbp& from,
                      const Placement& to_placement, const NdSbp& to) {
  return oracle::plan_by_bytes(shape, from_placement, from, to_placement, to);
}

// The paper's table (02, "Boxing") with T = bytes of the tensor, p1 = producers, p2 = consumers.
TEST_CASE("bytes between one-dimensional placements are those of the paper's table") {
  const Shape shape{12, 12};
  const std::int64_t t = 144 * 8;
  const NdSbp s0 = {Sbp::split(0)}, s1 = {Sbp::split(1)}, b = {Sbp::broadcast()},
              p = {Sbp::partial()};
  for (const std::int64_t p1 : {1, 2, 3, 4, 6}) {
    const auto same = [&](const NdSbp& from, const NdSbp& to) {
      return plan_bytes(shape, mesh({p1}), from, mesh({p1}), to).total_bytes.value;
    };
    CHECK(same(s0, s0) == 0);
    CHECK(same(s0, s1) * p1 == (p1 - 1) * t);
    CHECK(same(s0, b) == (p1 - 1) * t);
    CHECK(same(s0, p) == 0);
    CHECK(same(b, s0) == 0);
    CHECK(same(b, b) == 0);
    CHECK(same(b, p) == 0);
    CHECK(same(p, s0) == (p1 - 1) * t);
    CHECK(same(p, b) == 2 * (p1 - 1) * t);
    CHECK(same(p, p) == 0);
    for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
      const NdSbp other = {Sbp::partial(op)};
      CHECK(same(s0, other) == 0);
      CHECK(same(b, other) == 0);
      CHECK(same(other, s0) == (p1 - 1) * t);
      CHECK(same(other, b) == 2 * (p1 - 1) * t);
      CHECK(same(other, other) == 0);
      CHECK(same(p, other) == (p1 - 1) * t);
      CHECK(same(other, p) == (p1 - 1) * t);
    }
    for (const std::int64_t p2 : {1, 2, 3, 4}) {
      const auto apart = [&](const NdSbp& from, const NdSbp& to) {
        return plan_bytes(shape, mesh({p1}), from, mesh({p2}, 50), to).total_bytes.value;
      };
      CHECK(apart(s0, s0) == t);
      CHECK(apart(s0, s1) == t);
      CHECK(apart(s0, b) == p2 * t);
      CHECK(apart(s0, p) == t);
      CHECK(apart(b, s0) == t);
      CHECK(apart(b, b) == p2 * t);
      CHECK(apart(b, p) == t);
      CHECK(apart(p, s0) == p1 * t);
      CHECK(apart(p, b) == (p1 + p2 - 1) * t);
      CHECK(apart(p, p) == p1 * t);
      for (const ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin}) {
        const NdSbp other = {Sbp::partial(op)};
        CHECK(apart(s0, other) == t);
        CHECK(apart(b, other) == t);
        CHECK(apart(other, s0) == p1 * t);
        CHECK(apart(other, b) == (p1 + p2 - 1) * t);
        CHECK(apart(other, other) == p1 * t);
        if (p1 > 1) CHECK(apart(p, other) == p1 * t);
        if (p1 > 1) CHECK(apart(other, p) == p1 * t);
      }
    }
  }
}

std::string steps_text(const BoxingPlan& plan, const Placement& placement) {
  std::string text;
  for (const BoxingStep& step : plan.steps)
    text += (text.empty() ? "" : "; ") + to_string(step, placement);
  return text;
}

std::string steps_between(const char* from, const char* to, const Placement& placement,
                          const Shape& shape = Shape{8, 8}) {
  return steps_text(plan_bytes(shape, placement, parse_nd_sbp(from), placement, parse_nd_sbp(to)),
                    placement);
}

TEST_CASE("a change of one axis runs in the sub-groups of that axis") {
  const Placement placement = consecutive_placement({{"dp", 2}, {"tp", 2}});
  CHECK(steps_between("(S(0), P(sum))", "(S(0), B)", placement) ==
        "all_reduce over tp: (S(0), P(sum)) -> (S(0), B)");
  CHECK(steps_between("(P(sum), S(1))", "(S(0), S(1))", placement) ==
        "reduce_scatter over dp: (P(sum), S(1)) -> (S(0), S(1))");
  CHECK(steps_between("(S(0), S(1))", "(S(0), B)", placement) ==
        "all_gather over tp: (S(0), S(1)) -> (S(0), B)");
  CHECK(steps_between("(S(0), S(1))", "(S(0), S(0))", placement) ==
        "all_to_all over tp: (S(0), S(1)) -> (S(0), S(0))");
  // A nested split that ends on the dp axis: its gather stays a dp sub-group.
  CHECK(steps_between("(S(0)^2, S(0)^1)", "(B, S(0))", placement) ==
        "all_gather over dp: (S(0)^2, S(0)^1) -> (B, S(0))");
}

TEST_CASE("where no sub-group makes the change, one exchange over all axes does") {
  const Placement placement = consecutive_placement({{"dp", 2}, {"tp", 2}});
  CHECK(steps_between("(S(0)^2, S(0)^1)", "(S(0), S(0))", placement) ==
        "all_to_all over dp, tp: (S(0)^2, S(0)^1) -> (S(0), S(0))");
  CHECK(steps_between("(S(0), S(1))", "(S(1), S(0))", placement) ==
        "all_to_all over dp, tp: (S(0), S(1)) -> (S(1), S(0))");
}

TEST_CASE("neighbouring local steps are one step, and equal words need none") {
  const Placement placement = consecutive_placement({{"dp", 2}, {"tp", 2}});
  CHECK(steps_between("(B, B)", "(S(0), S(1))", placement) == "local: (B, B) -> (S(0), S(1))");
  CHECK(steps_between("(S(0), B)", "(S(0), B)", placement) == "");
  CHECK(steps_between("(S(0)^1, S(0)^2)", "(S(0), S(0))", placement) == "");
  // An axis of one device splits nothing.
  CHECK(steps_between("(P(sum), S(0))", "(S(1), S(0))",
                      consecutive_placement({{"dp", 1}, {"tp", 2}})) == "");
}

// Values 0..4 over 2 x 2, the model axis splits first: (d0,m0)=[0,1] (d1,m0)=[2] (d0,m1)=[3]
// (d1,m1)=[4]. Reading the words in axis order would gather 0,1,3,2,4.
TEST_CASE("G06: a split nested minor axis first gathers in the right order") {
  const Placement placement = consecutive_placement({{"data", 2}, {"model", 2}});
  const NdSbp words = {Sbp::split(0, 2), Sbp::split(0, 1)};
  oracle::Held held = {{{0, 0}, {1, 1}}, {{3, 3}}, {{2, 2}}, {{4, 4}}};
  const NdSbp whole = {Sbp::broadcast(), Sbp::broadcast()};
  oracle::Sent sent;
  for (const BoxingStep& step : plan_bytes(Shape{5}, placement, words, placement, whole).steps)
    held = oracle::execute(step, Shape{5}, held, placement, placement, sent);
  CHECK(oracle::complaint({0, 1, 2, 3, 4}, held, Shape{5}, whole, placement) == "");
}

// [5, 10] on 4 ranks: local rows 2, 1, 1, 1.
TEST_CASE("G01: an uneven split gathers to the same tensor") {
  check_boxing(Shape{5, 10}, mesh({4}), {Sbp::broadcast()}, mesh({4}), {Sbp::split(0)});
  check_boxing(Shape{5, 10}, mesh({4}), {Sbp::split(0)}, mesh({4}), {Sbp::broadcast()});
}

TEST_CASE("equal words on equal meshes are transferred between single pairs of ranks") {
  const Placement from = consecutive_placement({{"dp", 2}, {"tp", 2}});
  const Placement to = consecutive_placement({{"dp", 2}, {"tp", 2}}, Rank(4));
  for (const char* words : {"(S(0), B)", "(B, S(1))", "(B, B)", "(S(0), S(1))"}) {
    CAPTURE(words);
    const BoxingPlan plan =
        plan_bytes(Shape{8, 8}, from, parse_nd_sbp(words), to, parse_nd_sbp(words));
    REQUIRE(plan.steps.size() == 1);
    const auto groups = groups_of(plan.steps[0], {Shape{8, 8}, DType::kI64}, from, to);
    REQUIRE(groups.size() == 4);
    for (int i = 0; i < 4; ++i)
      CHECK(groups[static_cast<std::size_t>(i)] == std::vector<Rank>{Rank(i), Rank(4 + i)});
  }
}

TEST_CASE("a rank that has nothing to transfer is a group of its own") {
  // One row goes to the first device only.
  BoxingStep step;
  step.kind = BoxingKind::kTransfer;
  step.primitive = Primitive::kTransfer;
  step.from = {Sbp::split(0)};
  step.to = {Sbp::split(0)};
  const auto groups = groups_of(step, {Shape{1, 3}, DType::kI64}, mesh({2}), mesh({2}, 2));
  CHECK(groups == std::vector<std::vector<Rank>>{{Rank(0), Rank(2)}, {Rank(1)}, {Rank(3)}});
}

// Ring over 3 members of 7 elements, chunks 3, 2, 2 (i64, 8 bytes each). Reduce-scatter: member r
// sends all chunks but its own: 7-3, 7-2, 7-2 elements. All-gather: member r sends all chunks but
// its neighbour's: 7-2, 7-2, 7-3.
TEST_CASE("the volume of a ring is what each member sends to its neighbour") {
  const Placement ring = mesh({3});
  const auto volume = [&](Primitive primitive, Sbp from, Sbp to) {
    BoxingStep step;
    step.kind = BoxingKind::kCollective;
    step.primitive = primitive;
    step.from = {from};
    step.to = {to};
    step.group_axes = {0};
    std::vector<std::int64_t> bytes;
    for (const PairBytes& pair : reference_volume(step, {Shape{7}, DType::kI64}, ring, ring)) {
      CHECK(pair.destination.value == (pair.source.value + 1) % 3);
      bytes.push_back(pair.bytes.value);
    }
    return bytes;
  };
  using Sent = std::vector<std::int64_t>;
  CHECK(volume(Primitive::kReduceScatter, Sbp::partial(), Sbp::split(0)) == Sent{32, 40, 40});
  CHECK(volume(Primitive::kAllGather, Sbp::split(0), Sbp::broadcast()) == Sent{40, 40, 32});
  CHECK(volume(Primitive::kAllReduce, Sbp::partial(), Sbp::broadcast()) == Sent{72, 80, 72});
}

// The refusal of (from)@(from_placement) -> (to)@(to_placement) for a 4x4 tensor.
std::string refusal(const NdSbp& from, const Placement& from_placement, const NdSbp& to,
                    const Placement& to_placement, ErrorCode code,
                    std::optional<DType> reduce_dtype = {}) {
  BoxingRequest request =
      oracle::request_by_bytes(Shape{4, 4}, from_placement, from, to_placement, to);
  request.reduce_dtype = reduce_dtype;
  try {
    plan_boxing(request);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "planned";
}

std::string refusal(const char* from, const Placement& from_placement, const char* to,
                    const Placement& to_placement, ErrorCode code,
                    std::optional<DType> reduce_dtype = {}) {
  return refusal(parse_nd_sbp(from), from_placement, parse_nd_sbp(to), to_placement, code,
                 reduce_dtype);
}

bool names(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    if (text.find(part) == std::string::npos) {
      MESSAGE("'" << part << "' is not in: " << text);
      return false;
    }
  return true;
}

TEST_CASE("what cannot be boxed is refused with both sides, the shape and what would do") {
  const Placement square = consecutive_placement({{"dp", 2}, {"tp", 2}});
  const Placement line = consecutive_placement({{"x", 3}}, Rank(7));
  const std::string from = "(S(0), B)@[dp=2, tp=2]", to = "B@[x=3]";
  CHECK(names(refusal("(S(2), B)", square, "B", line, ErrorCode::kUsage),
              {"(S(2), B)@[dp=2, tp=2]", to, "4x4", "splits dim 2", "dims are 0, 1"}));
  CHECK(names(refusal("(S(0), B)", square, "S(5)", line, ErrorCode::kUsage),
              {from, "S(5)@[x=3]", "splits dim 5", "dims are 0, 1"}));
  CHECK(names(refusal("(S(0), B)", square, "(B, B)", line, ErrorCode::kUsage),
              {"(S(0), B)@[dp=2, tp=2]", "(B, B)@[x=3]", "2 words for 1 mesh axes"}));
  CHECK(names(refusal("(P(sum), P(max))", square, "B", line, ErrorCode::kInfeasible),
              {"(P(sum), P(max))@[dp=2, tp=2]", to, "two different reductions",
               "one reduction on all partial axes is legal"}));
  CHECK(names(refusal(NdSbp{Sbp::split(0, 2), Sbp::split(0, 2)}, square, NdSbp{Sbp::broadcast()},
                      line, ErrorCode::kUsage),
              {"(S(0)^2, S(0)^2)@[dp=2, tp=2]", to, "nesting positions"}));
  CHECK(names(refusal("(P(sum), B)", square, "B", line, ErrorCode::kInfeasible, DType::kI32),
              {"(P(sum), B)@[dp=2, tp=2]", to, "a reduction in i32", "every value of i64: i64"}));
  CHECK(names(refusal("B", mesh_on({3}, {4, 9, 4}), "(S(0), B)", square, ErrorCode::kUsage),
              {"(S(0), B)@[dp=2, tp=2]", "B@[a0=3]", "the device 4 is named twice"}));
  CHECK(names(refusal("B", mesh_on({3}, {4, 9}), "(S(0), B)", square, ErrorCode::kUsage),
              {"(S(0), B)@[dp=2, tp=2]", "3 coordinates but 2 devices"}));
}

TEST_CASE("a scalar has nothing to split") {
  try {
    plan_bytes(Shape{}, mesh({2}), {Sbp::split(0)}, mesh({2}), {Sbp::broadcast()});
    FAIL("planned");
  } catch (const Error& error) {
    CHECK(names(error.what(), {"S(0)@[a0=2]", "B@[a0=2]", "no dims; legal are B and P"}));
  }
}

TEST_CASE("reductions on axes of one device do not contradict each other") {
  const NdSbp words = {Sbp::partial(), Sbp::partial(ReduceOp::kMax)};
  CHECK(
      plan_bytes(Shape{4}, mesh({2, 1}), words, mesh({2, 1}), {Sbp::broadcast(), Sbp::broadcast()})
          .steps.size() == 1);
}

TEST_CASE("by time a small tensor is reduced in one step and a large one in shares") {
  // (P, B) on 4 x 2. One all_reduce over dp: 6 hops of 1 us + S/4 ns. Slicing over tp first moves
  // half of it but gathers again: 6 (1 us + S/8) + 1 us + S/2 (S = bytes, in ns). The first takes
  // 6 + 1.5 S, the second 7 + 1.25 S: equal at 4 us = 4000 bytes.
  const Placement placement = consecutive_placement({{"dp", 4}, {"tp", 2}});
  const oracle::HopModel network;
  const auto plan = [&](const Shape& shape) {
    return plan_boxing({.type = {shape, DType::kI64},
                        .from_placement = &placement,
                        .to_placement = &placement,
                        .from = {Sbp::partial(), Sbp::broadcast()},
                        .to = {Sbp::broadcast(), Sbp::broadcast()},
                        .objective = BoxingObjective::kTime,
                        .network = &network});
  };
  const BoxingPlan small = plan(Shape{64});  // 512 bytes
  CHECK(small.steps.size() == 1);
  CHECK(small.time == Duration(6 * (1'000'000 + 512'000 / 4)));
  const BoxingPlan large = plan(Shape{8000});  // 64000 bytes
  CHECK(large.steps.size() == 3);
  CHECK(large.time == Duration(6 * (1'000'000 + 32'000'000 / 4) + 1'000'000 + 64'000'000 / 2));
}

// (P, S(0)) on 4 x 2, where a collective over all 8 devices is a hundredth faster than those over
// dp with half of the S bytes each. Where fills are free that is chosen; with memory in time, the
// fill (S/2 read, S written) and the slice (S/2 and S/2) are part of the price.
TEST_CASE("filling a part up with zeros is not free where devices are timed") {
  const Placement placement = consecutive_placement({{"dp", 4}, {"tp", 2}});
  class Switch final : public oracle::HopModel {
    Duration duration(const CollectiveCost& cost) const override {
      const std::int64_t bytes = cost.global_bytes.value;
      return cost.members.size() == 8 ? Duration(bytes * 990) : Duration(bytes * 2000);
    }
  };
  const Switch network;
  const oracle::StreamCost memory(0, 4);
  BoxingRequest request{.type = {Shape{64, 64}, DType::kI64},
                        .from_placement = &placement,
                        .to_placement = &placement,
                        .from = {Sbp::partial(), Sbp::split(0)},
                        .to = {Sbp::broadcast(), Sbp::split(0)},
                        .network = &network};
  constexpr std::int64_t kWhole = 64 * 64 * 8;
  const BoxingPlan filled = plan_boxing(request);
  CHECK(filled.steps.size() == 3);
  CHECK(filled.time == Duration(kWhole * 990));
  request.cost = &memory;
  const BoxingPlan plain = plan_boxing(request);
  CHECK(plain.steps.size() == 1);
  CHECK(plain.time == Duration(kWhole / 2 * 2000));
  // At 4 ps per byte they take 10 S; at 1 ps 2.5 S, and 990 S + 2.5 S is less than 1000 S.
  const oracle::StreamCost faster(0, 1);
  request.cost = &faster;
  CHECK(plan_boxing(request).time == Duration(kWhole * 990 + kWhole * 5 / 2));
}

TEST_CASE("a slice is filled up where that touches less memory than a copy of the whole") {
  // B -> P(sum) reads and writes S; a slice reads and writes S/8, and the fill S/8 and S.
  const Placement placement = consecutive_placement({{"x", 8}});
  const oracle::HopModel network;
  const oracle::StreamCost memory(0, 1);
  BoxingRequest request{.type = {Shape{64, 64}, DType::kI64},
                        .from_placement = &placement,
                        .to_placement = &placement,
                        .from = {Sbp::broadcast()},
                        .to = {Sbp::partial()},
                        .network = &network,
                        .cost = &memory};
  const BoxingPlan plan = plan_boxing(request);
  CHECK(plan.steps.size() == 2);
  CHECK(plan.time == Duration(64 * 64 * (2 + 1 + 8)));
  const oracle::StreamCost late(100'000, 1);  // a second start is not worth it
  request.cost = &late;
  CHECK(plan_boxing(request).steps.size() == 1);
}

TEST_CASE("planning a pair takes tens of microseconds") {
  const Placement placement = consecutive_placement({{"dp", 16}, {"tp", 8}});
  const std::vector<NdSbp> words = all_words(2, kAlphabet);
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  int plans = 0;
  for (const NdSbp& from : words)
    for (const NdSbp& to : words) {
      plan_bytes(Shape{16, 1024, 2048}, placement, from, placement, to);
      ++plans;
    }
  const double each = 1e6 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / plans;
  MESSAGE("microseconds per plan: " << each);
  // A hundred times what it takes: sanitizers are slow.
  CHECK(each < 10000);
}

}  // namespace
}  // namespace sextant::boxing_test
