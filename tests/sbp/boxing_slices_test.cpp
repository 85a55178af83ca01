// Boxing of large meshes by slices: right on small ones where the whole search is the reference.
#include "sbp/boxing_slices.h"

#include "sbp/group_costs.h"
#include "tests/sbp/boxing_cases.h"
#include "tests/sbp/boxing_networks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace sextant::boxing_slices_test {
namespace {

using oracle::all_words;
using oracle::mesh;

struct Sum {
  std::int64_t plans = 0, dearer = 0;
  double ratios = 0, worst = 0;
};

// Every pair of words; a mesh of more than one device counts as large.
void check_all(const std::vector<std::int64_t>& extents, int first_target, const Shape& shape,
               const NetworkModel* network, Sum& sum) {
  const Placement from = mesh(extents), to = mesh(extents, first_target);
  const std::vector<NdSbp> words =
      all_words(extents.size(), {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()});
  std::int64_t pair = 0;
  for (const NdSbp& a : words)
    for (const NdSbp& b : words) {
      if (network != nullptr && pair++ % 5 != 0) continue;
      BoxingRequest request = oracle::request_by_bytes(shape, from, a, to, b);
      if (network != nullptr) {
        request.objective = BoxingObjective::kTime;
        request.network = network;
        request.cost = oracle::devices().front();
      }
      const BoxingPlan plan = plan_large_boxing(request, 1), best = plan_boxing(request);
      oracle::check_plan(request, plan);
      const std::int64_t cost = network != nullptr ? plan.time.value : plan.total_bytes.value;
      const std::int64_t least = network != nullptr ? best.time.value : best.total_bytes.value;
      CHECK(cost >= least);
      if (network == nullptr || least == 0) continue;
      const double ratio = static_cast<double>(cost) / static_cast<double>(least);
      ++sum.plans;
      sum.dearer += cost > least ? 1 : 0;
      sum.ratios += ratio;
      sum.worst = std::max(sum.worst, ratio);
    }
}

TEST_CASE("plans by slices keep the value and the bytes they say, and are seldom much dearer") {
  Sum sum;
  for (const std::vector<std::int64_t>& extents :
       {std::vector<std::int64_t>{2}, {3}, {2, 2}, {3, 2}, {2, 1, 2}, {2, 2, 2}}) {
    std::int64_t devices = 1;
    for (const std::int64_t extent : extents) devices *= extent;
    if (extents.size() < 3) {
      check_all(extents, static_cast<int>(devices), Shape{7, 5}, nullptr, sum);
      check_all(extents, static_cast<int>(devices) - 1, Shape{7, 5}, nullptr, sum);
    }
    for (const NetworkModel* network : oracle::networks())
      if (devices < 8) check_all(extents, static_cast<int>(devices), Shape{8, 12}, network, sum);
  }
  MESSAGE("plans by slices: ", sum.plans, ", dearer than the best ", sum.dearer, ", mean ratio ",
          sum.ratios / static_cast<double>(sum.plans), ", worst ", sum.worst);
  CHECK(sum.plans > 700);
  CHECK(sum.ratios / static_cast<double>(sum.plans) < 1.2);
}

// What the groups of a transfer move, group by group.
Bytes moved_by_groups(const BoxingStep& step, const TensorType& type, const Placement& from,
                      const Placement& to) {
  Bytes sum;
  for (const GroupCost& group : group_costs(step, type, from, to)) sum += group.global_bytes;
  return sum;
}

TEST_CASE("bytes across are those of the groups, from any words to any on other devices") {
  const TensorType type{Shape{7, 5}, DType::kF32};
  const std::vector<std::vector<std::int64_t>> meshes = {{1}, {2}, {3}, {2, 2}, {3, 2}};
  const std::vector<Sbp> words = {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()};
  for (const std::vector<std::int64_t>& source : meshes)
    for (const std::vector<std::int64_t>& target : meshes) {
      const Placement from = mesh(source), to = mesh(target, static_cast<int>(from.size()));
      for (const NdSbp& a : all_words(source.size(), words))
        for (const NdSbp& b : all_words(target.size(), words)) {
          BoxingStep step;
          step.kind = BoxingKind::kTransfer;
          step.primitive = Primitive::kTransfer;
          step.from = a;
          step.to = b;
          const std::optional<Bytes> across = bytes_across(step, type, from, to);
          REQUIRE(across.has_value());
          CHECK(*across == moved_by_groups(step, type, from, to));
          CHECK_FALSE(bytes_across(step, type, from, mesh(target)).has_value());
        }
    }
}

TEST_CASE("equal words cross a mesh of two thousand devices as its slices do") {
  const Placement from = mesh({256, 8}), to = mesh({256, 8}, 2048);
  const Placement row = mesh({1, 8}), next = mesh({1, 8}, 2048);
  const NdSbp words = {Sbp::broadcast(), Sbp::split(0)};
  const oracle::HopModel network(8, 4);
  BoxingRequest request = oracle::request_by_bytes(Shape{512, 64}, from, words, to, words);
  request.objective = BoxingObjective::kTime;
  request.network = &network;
  const BoxingPlan plan = plan_large_boxing(request);
  request.from_placement = &row;
  request.to_placement = &next;
  const BoxingPlan slice = plan_large_boxing(request);
  CHECK(plan.time == slice.time);
  CHECK(plan.total_bytes == slice.total_bytes * 256);
  CHECK(plan.steps.size() == slice.steps.size());
}

TEST_CASE("a mesh of two thousand devices changes words and crosses within the search's budget") {
  const Placement from = mesh({256, 8}), to = mesh({256, 8}, 2048);
  const oracle::HopModel network(8, 4);
  for (const auto& [a, b] : std::vector<std::pair<NdSbp, NdSbp>>{
           {{Sbp::partial(), Sbp::split(0)}, {Sbp::broadcast(), Sbp::split(0)}},
           {{Sbp::split(0), Sbp::broadcast()}, {Sbp::split(0), Sbp::split(1)}},
           {{Sbp::partial(), Sbp::partial()}, {Sbp::broadcast(), Sbp::broadcast()}}}) {
    BoxingRequest request = oracle::request_by_bytes(Shape{512, 64}, from, a, to, b);
    request.objective = BoxingObjective::kTime;
    request.network = &network;
    const BoxingPlan plan = plan_large_boxing(request);
    REQUIRE(!plan.steps.empty());
    CHECK(plan.steps.front().from == a);
    CHECK(plan.steps.back().to == b);
    CHECK(plan.time > Duration(0));
  }
}

}  // namespace
}  // namespace sextant::boxing_slices_test
