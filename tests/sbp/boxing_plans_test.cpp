// Plans that are made once: equal to plans made anew, and made as often as there are distinct ones.
#include "sbp/boxing_plans.h"

#include "core/base/error.h"
#include "core/costs/words_at.h"
#include "tests/sbp/boxing_networks.h"

#include <doctest/doctest.h>

#include <random>

namespace sextant::boxing_plans_test {
namespace {

const TensorType kType{Shape{5, 7}, DType::kBF16};

// A ring of devices in which distance costs: time depends on where the members are.
class LineNetwork final : public NetworkModel {
 public:
  void complete(const CollectiveCost&, std::span<const Time>, std::span<Time>) const override {}
  Duration duration(const CollectiveCost& cost) const override {
    std::int64_t way = 0;
    for (std::size_t i = 1; i < cost.members.size(); ++i)
      way += std::abs(cost.members[i].value - cost.members[i - 1].value);
    return Duration(way * 1000 + cost.global_bytes.value + cost.largest_volume.value);
  }
};

void check_equal(const BoxingPlan& a, const BoxingPlan& b) {
  CHECK(a.steps == b.steps);
  CHECK(a.total_bytes == b.total_bytes);
  CHECK(a.time == b.time);
}

TEST_CASE("a remembered plan is the plan that is made anew, under both objectives") {
  const LineNetwork network;
  const oracle::StreamCost cost(300, 2);
  const std::vector<Placement> placements = {consecutive_placement({{"a", 2}, {"b", 2}}),
                                             consecutive_placement({{"a", 2}, {"b", 2}}, Rank(4)),
                                             consecutive_placement({{"a", 2}, {"b", 2}}, Rank(8)),
                                             consecutive_placement({{"a", 4}}, Rank(8))};
  const std::vector<Sbp> letters = {Sbp::broadcast(), Sbp::split(0), Sbp::split(1), Sbp::partial()};
  std::mt19937 random(3);
  const auto pick = [&](const auto& list) { return list[random() % list.size()]; };
  for (const NetworkModel* model :
       {static_cast<const NetworkModel*>(nullptr), static_cast<const NetworkModel*>(&network)}) {
    BoxingPlans plans(BoxingObjective::kTime, model, &cost);
    for (int round = 0; round < 400; ++round) {
      const Placement from = pick(placements), to = pick(placements);
      BoxingRequest request{.type = kType,
                            .from_placement = &from,
                            .to_placement = &to,
                            .from = {},
                            .to = {},
                            .network = model,
                            .cost = &cost};
      for (std::size_t axis = 0; axis < from.axes.size(); ++axis)
        request.from.push_back(pick(letters));
      for (std::size_t axis = 0; axis < to.axes.size(); ++axis) request.to.push_back(pick(letters));
      // Overlapping placements are another test's matter.
      if (from.ranks == to.ranks && from.axes != to.axes) continue;
      check_equal(plans.plan(plans.type(kType), plans.placement(from), request.from,
                             plans.placement(to), request.to),
                  plan_boxing(request));
    }
  }
}

TEST_CASE("by bytes equally related placements share plans, by time only equal ones do") {
  const LineNetwork network;
  const auto distinct = [](const NetworkModel* model) {
    BoxingPlans plans(BoxingObjective::kTime, model);
    const BoxedTypeId type = plans.type(kType);
    for (int stage = 0; stage < 8; ++stage) {
      const BoxedMeshId here = plans.placement(consecutive_placement({{"x", 4}}, Rank(4 * stage)));
      const BoxedMeshId next =
          plans.placement(consecutive_placement({{"x", 4}}, Rank(4 * stage + 4)));
      for (int again = 0; again < 3; ++again) {
        plans.plan(type, here, NdSbp{Sbp::partial()}, here, NdSbp{Sbp::broadcast()});
        plans.plan(type, here, NdSbp{Sbp::split(0)}, next, NdSbp{Sbp::split(0)});
      }
    }
    return plans.size();
  };
  CHECK(distinct(nullptr) == 2);
  CHECK(distinct(&network) == 16);
}

TEST_CASE("what a plan depends on is part of its key") {
  BoxingPlans plans(BoxingObjective::kBytes);
  const BoxedMeshId here = plans.placement(consecutive_placement({{"x", 4}}));
  const NdSbp partial = {Sbp::partial()}, whole = {Sbp::broadcast()}, rows = {Sbp::split(0)};
  const auto bytes = [&](const TensorType& type, const NdSbp& from, const NdSbp& to) {
    return plans.plan(plans.type(type), here, from, here, to).total_bytes.value;
  };
  // 35 elements of 2 bytes: 2 (4-1) T and (4-1) T.
  CHECK(bytes(kType, partial, whole) == 6 * 70);
  CHECK(bytes(kType, partial, rows) == 3 * 70);
  CHECK(bytes(kType, rows, whole) == 3 * 70);
  CHECK(bytes({Shape{5, 7}, DType::kF32}, partial, whole) == 6 * 140);
  CHECK(bytes({Shape{35}, DType::kBF16}, partial, whole) == 6 * 70);
  CHECK(plans.type(kType) != plans.type(kType, DType::kF32));
  CHECK(plans.type(kType, DType::kF32) != plans.type(kType, std::nullopt, DType::kF32));
  CHECK(plans.type(kType, DType::kF32) == plans.type(kType, DType::kF32));
  // Names of axes are no part of it; extents are.
  CHECK(plans.placement(consecutive_placement({{"y", 4}})) == here);
  CHECK(plans.placement(consecutive_placement({{"y", 2}, {"z", 2}})) != here);
}

TEST_CASE("the same extents on shared, permuted and disjoint devices are different pairs") {
  BoxingPlans plans(BoxingObjective::kBytes);
  const auto place = [&](const char* text) {
    return plans.placement(parse_words_at(text).placement);
  };
  const auto bytes = [&](const char* from, const char* to) -> std::int64_t {
    const NdSbp rows = {Sbp::split(0)};
    return plans.plan(plans.type({Shape{8}, DType::kF32}), place(from), rows, place(to), rows)
        .total_bytes.value;
  };
  CHECK(bytes("B@[x=4]", "B@[x=4]") == 0);
  CHECK(bytes("B@[x=4]", "B@[x=4]{4-7}") == 32);
  CHECK(bytes("B@[x=4]{8-11}", "B@[x=4]{8-11}") == 0);
  CHECK(plans.size() == 2);
}

TEST_CASE("refusals are refused again") {
  BoxingPlans plans(BoxingObjective::kBytes);
  const BoxedMeshId here = plans.placement(consecutive_placement({{"x", 2}, {"y", 2}}));
  const BoxedTypeId type = plans.type(kType);
  const NdSbp both = {Sbp::partial(), Sbp::partial(ReduceOp::kMax)}, whole(2);
  for (int again = 0; again < 2; ++again) {
    CHECK_THROWS_AS(plans.plan(type, here, both, here, whole), Error);
    CHECK_THROWS_AS(plans.plan(type, here, NdSbp{Sbp::split(2), {}}, here, whole), Error);
  }
  CHECK(plans.size() == 0);
  Placement broken = consecutive_placement({{"x", 2}});
  broken.ranks[1] = broken.ranks[0];
  CHECK_THROWS_AS(plans.placement(broken), Error);
}

}  // namespace
}  // namespace sextant::boxing_plans_test
