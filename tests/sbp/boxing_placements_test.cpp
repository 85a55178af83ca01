// Boxing between placements, worked out by hand: what stays where it is, what is relabelled, where
// partial values are added.
#include "core/base/error.h"
#include "tests/sbp/boxing_cases.h"
#include "tests/sbp/boxing_networks.h"
#include "tests/sbp/boxing_oracle.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sextant::boxing_placements_test {
namespace {

using oracle::check_plan;
using oracle::mesh;
using oracle::mesh_on;

struct Planned {
  std::string steps;
  std::int64_t bytes = 0;
};

// By bytes, of i64; executed too.
Planned planned(const char* from, const Placement& from_placement, const char* to,
                const Placement& to_placement, const Shape& shape = Shape{12, 12}) {
  const BoxingRequest request = oracle::request_by_bytes(shape, from_placement, parse_nd_sbp(from),
                                                         to_placement, parse_nd_sbp(to));
  const BoxingPlan plan = plan_boxing(request);
  check_plan(request, plan);
  Planned result{"", plan.total_bytes.value};
  for (const BoxingStep& step : plan.steps)
    result.steps += (result.steps.empty() ? "" : "; ") + to_string(step);
  return result;
}

constexpr std::int64_t kBytes = 12 * 12 * 8;

TEST_CASE("another mesh of the same devices needs new words only") {
  CHECK(planned("(P(sum), P(sum))", mesh({2, 2}), "P(sum)", mesh({4})).steps ==
        "relabel: (P(sum), P(sum)) -> P(sum)");
  CHECK(planned("S(0)", mesh({4}), "(S(0), S(0))", mesh({2, 2})).steps ==
        "relabel: S(0) -> (S(0), S(0))");
  CHECK(planned("(S(0), B)", mesh({2, 3}), "(S(0), B)", mesh({2, 3})).steps == "");
  CHECK(planned("B", mesh({6}), "(S(0), B)", mesh({2, 3})).bytes == 0);
  // The transposed mesh: what was the first axis is the second.
  CHECK(planned("(S(0), P(sum))", mesh({2, 2}), "(P(sum), S(0))", mesh_on({2, 2}, {0, 2, 1, 3}))
            .steps == "relabel: (S(0), P(sum)) -> (P(sum), S(0))");
}

// 5 rows over 4 are 2, 1, 1, 1, and so are 3, 2 over 2: 2, 1 and 1, 1. 6 rows are 2, 2, 1, 1 but
// 2, 1 and 2, 1: row 2 goes from device 1 to no other place, row 3 from device 1 to device 2, ...
TEST_CASE("splits are relabelled exactly where no device's box changes") {
  CHECK(planned("S(0)", mesh({4}), "(S(0), S(0))", mesh({2, 2}), Shape{5, 1}).bytes == 0);
  const Planned moved = planned("S(0)", mesh({4}), "(S(0), S(0))", mesh({2, 2}), Shape{6, 1});
  CHECK(moved.steps == "transfer: S(0) -> (S(0), S(0))");
  // Wanted {0,1} {2} {3,4} {5}, held {0,1} {2,3} {4} {5}: row 3 moves.
  CHECK(moved.bytes == 8);
}

TEST_CASE("after a relabel a reduction runs over the partial axis only") {
  CHECK(planned("P(sum)", mesh({4}), "(P(sum), B)", mesh({2, 2})).steps ==
        "relabel: P(sum) -> (P(sum), P(sum)); all_reduce over axis 1: (P(sum), P(sum)) -> "
        "(P(sum), B)");
}

// ones[4] as (S(0), B) on 4 x 2: the copies on the second axis are not added.
TEST_CASE("G09: copies are not added when splits are gathered") {
  const Placement placement = mesh({4, 2});
  const NdSbp words = {Sbp::split(0), Sbp::broadcast()},
              whole = {Sbp::broadcast(), Sbp::broadcast()};
  oracle::Held held;
  for (std::int64_t device = 0; device < 8; ++device) held.push_back({{device / 2, 1}});
  oracle::Sent sent;
  for (const BoxingStep& step :
       oracle::plan_by_bytes(Shape{4}, placement, words, placement, whole).steps) {
    CHECK(step.primitive == Primitive::kAllGather);
    CHECK(step.group_axes == std::vector<std::size_t>{0});
    held = oracle::execute(step, Shape{4}, held, placement, placement, sent);
  }
  CHECK(oracle::complaint({1, 1, 1, 1}, held, Shape{4}, whole, placement) == "");
}

TEST_CASE("a device on both sides keeps what it holds") {
  // Rows 0-3, 4-7, 8-11 on 0, 1, 2; wanted on 1, 2, 3. Device 1 has none of 0-3, 2 none of 4-7, ...
  CHECK(planned("S(0)", mesh({3}), "S(0)", mesh({3}, 1)).bytes == kBytes);
  // Halves on 0 and 1, quarters on 0 to 3: 0 keeps its first quarter, 1 has none of its own.
  CHECK(planned("S(0)", mesh({2}), "S(0)", mesh({4})).bytes == kBytes * 3 / 4);
  // Copies where there were copies cost nothing.
  CHECK(planned("B", mesh({4}), "B", mesh({2}, 1)).bytes == 0);
  CHECK(planned("B", mesh({2}), "B", mesh({4})).bytes == 2 * kBytes);
}

TEST_CASE("partial values are added where they are wanted") {
  // Three others send to the one that is left.
  CHECK(planned("P(sum)", mesh({4}), "B", mesh({1})).steps == "transfer: P(sum) -> B");
  CHECK(planned("P(sum)", mesh({4}), "B", mesh({1})).bytes == 3 * kBytes);
  // On two of four each half gets three more shares: 2 * 3 * T / 2.
  CHECK(planned("P(sum)", mesh({4}), "S(0)", mesh({2})).bytes == 3 * kBytes);
  // Shares stay where they are when devices join, and move when devices leave.
  CHECK(planned("P(sum)", mesh({4}), "P(sum)", mesh({8})).bytes == 0);
  CHECK(planned("P(sum)", mesh({8}), "P(sum)", mesh({4})).bytes == 4 * kBytes);
}

TEST_CASE("between other devices the source reduces where that costs no more") {
  CHECK(planned("P(sum)", mesh({4}), "S(0)", mesh({4}, 4)).steps ==
        "reduce_scatter over axis 0: P(sum) -> S(0); transfer: S(0) -> S(0)");
}

TEST_CASE("all members of the groups of a transfer are found once") {
  const Placement from = mesh({4}), to = mesh_on({4}, {2, 3, 8, 9});
  BoxingStep step;
  step.kind = BoxingKind::kTransfer;
  step.primitive = Primitive::kTransfer;
  step.where = BoxingWhere::kBetween;
  step.from = step.to = {Sbp::split(0)};
  // Wanted by 2, 3, 8, 9: the parts of 0, 1, 2, 3. So 0 -> 2 -> 8 and 1 -> 3 -> 9.
  CHECK(groups_of(step, {Shape{4}, DType::kI64}, from, to) ==
        std::vector<std::vector<Rank>>{{Rank(0), Rank(2), Rank(8)}, {Rank(1), Rank(3), Rank(9)}});
}

// Random triples of layouts, each on its own placement of 1 to 6 of 8 devices. What is partial may
// collect more cheaply on a third one (README, "Triangle inequality").
TEST_CASE("by bytes whole values take no cheaper way through a third placement") {
  const std::vector<std::vector<std::int64_t>> meshes = {{1},    {2},    {3},   {4},
                                                         {2, 2}, {2, 3}, {1, 2}};
  const std::vector<Sbp> letters = {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()};
  const std::vector<Sbp> whole = {Sbp::split(0), Sbp::split(1), Sbp::broadcast()};
  const std::vector<Shape> shapes = {{12, 12}, {5, 3}, {1, 7}};
  std::mt19937_64 random(17);
  struct Layout {
    Placement placement;
    NdSbp words;
  };
  const auto draw = [&](bool is_whole) {
    const auto& extents = meshes[random() % meshes.size()];
    std::vector<int> devices = {0, 1, 2, 3, 4, 5, 6, 7};
    std::shuffle(devices.begin(), devices.end(), random);
    devices.resize(mesh(extents).ranks.size());
    const std::vector<NdSbp> words = oracle::all_words(extents.size(), is_whole ? whole : letters);
    return Layout{mesh_on(extents, devices), words[random() % words.size()]};
  };
  for (int triple = 0; triple < 3000; ++triple) {
    const Shape& shape = shapes[random() % shapes.size()];
    const Layout a = draw(true), b = draw(false), c = draw(false);
    const auto bytes = [&](const Layout& from, const Layout& to) {
      return oracle::plan_by_bytes(shape, from.placement, from.words, to.placement, to.words)
          .total_bytes.value;
    };
    const std::int64_t direct = bytes(a, c), first = bytes(a, b), second = bytes(b, c);
    if (direct <= first + second) continue;
    const BoxingRequest asked =
        oracle::request_by_bytes(shape, a.placement, a.words, c.placement, c.words);
    const BoxingRequest detour =
        oracle::request_by_bytes(shape, a.placement, a.words, b.placement, b.words);
    FAIL_CHECK(oracle::text_of(asked, plan_boxing(asked))
               << " but " << oracle::text_of(detour, plan_boxing(detour)) << " and " << second);
  }
}

// Neither the numbers of devices nor the names of axes enter the choice.
TEST_CASE("plans depend on nothing but what they are asked for") {
  const oracle::HopModel network;
  const std::vector<NdSbp> words =
      oracle::all_words(2, {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()});
  Placement renamed = mesh({2, 3}, 40);
  renamed.axes[0].name = "z";
  const Placement plain = mesh({2, 3});
  for (const NdSbp& from : words)
    for (const NdSbp& to : words) {
      BoxingRequest request = oracle::request_by_bytes(Shape{6, 6}, plain, from, plain, to);
      for (const NetworkModel* by : {static_cast<const NetworkModel*>(nullptr),
                                     static_cast<const NetworkModel*>(&network)}) {
        request.objective = by != nullptr ? BoxingObjective::kTime : BoxingObjective::kBytes;
        request.network = by;
        request.from_placement = request.to_placement = &plain;
        const BoxingPlan plan = plan_boxing(request);
        request.from_placement = request.to_placement = &renamed;
        CHECK(plan_boxing(request).steps == plan.steps);
      }
    }
}

// The budget is counted: 2^28 pairs of devices would be more than a search may look at.
TEST_CASE(
    "an exchange among thousands of devices takes work for its members, not for their pairs") {
  const oracle::HopModel network;
  const Placement devices = mesh({128, 128});
  BoxingRequest request =
      oracle::request_by_bytes(Shape{16384, 16384}, devices, parse_nd_sbp("(S(0),S(0))"), devices,
                               parse_nd_sbp("(S(1),S(1))"));
  request.objective = BoxingObjective::kTime;
  request.network = &network;
  const BoxingPlan plan = plan_boxing(request);
  CHECK(plan.steps.back().to == request.to);
  CHECK(plan.total_bytes > Bytes(0));
}

}  // namespace
}  // namespace sextant::boxing_placements_test
