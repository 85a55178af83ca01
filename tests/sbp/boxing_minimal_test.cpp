// No sequence of steps is cheaper than the plan, by bytes or by time; so no way round is.
#include "core/base/error.h"
#include "tests/sbp/boxing_brute_force.h"
#include "tests/sbp/boxing_cases.h"
#include "tests/sbp/boxing_networks.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace sextant::boxing_minimal_test {
namespace {

using oracle::all_words;
using oracle::BruteForce;
using oracle::mesh;
using oracle::mesh_on;
using oracle::WordTable;

const Sbp kMax = Sbp::partial(ReduceOp::kMax);
const std::vector<Sbp> kFour = {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()};
const std::vector<Sbp> kFive = {Sbp::split(0), Sbp::split(1), Sbp::split(2), Sbp::broadcast(),
                                Sbp::partial()};

// Compares with brute force for all pairs of words, or `sample` of them.
void check_minimal(const WordTable& source, const WordTable& target, const TensorType& type,
                   const NetworkModel* network, std::size_t sample = 0,
                   std::optional<DType> to_dtype = {}, std::optional<DType> reduce_dtype = {},
                   const CostModel* cost = nullptr) {
  BoxingRequest request{
      .type = type,
      .from_placement = &source.placement(),
      .to_placement = &target.placement(),
      .from = {},
      .to = {},
      .to_dtype = to_dtype,
      .reduce_dtype = reduce_dtype,
      .objective = network != nullptr ? BoxingObjective::kTime : BoxingObjective::kBytes,
      .network = network,
      .cost = cost};
  const BruteForce brute(source, target, request, network);
  const std::size_t pairs = source.words().size() * target.words().size();
  std::mt19937_64 random(5);
  for (std::size_t i = 0; i < (sample != 0 ? sample : pairs); ++i) {
    const std::size_t pair = sample != 0 ? random() % pairs : i;
    request.from = source.words()[pair / target.words().size()];
    request.to = target.words()[pair % target.words().size()];
    const BoxingPlan plan = plan_boxing(request);
    const std::int64_t found = network != nullptr ? plan.time.value : plan.total_bytes.value;
    if (found != brute.cost(request.from, request.to) || found != brute.price(plan))
      FAIL_CHECK(found << ", its steps " << brute.price(plan) << ", brute force "
                       << brute.cost(request.from, request.to) << ": "
                       << oracle::text_of(request, plan));
  }
}

WordTable table(const std::vector<std::int64_t>& extents, const std::vector<Sbp>& alphabet,
                std::size_t rank, int first = 0) {
  return WordTable(mesh(extents, first), all_words(extents.size(), alphabet), rank);
}

const std::vector<Shape> kShapes = {{5, 3}, {7, 2}, {4, 6}, {1, 5}, {0, 3}, {24, 36}};

TEST_CASE("no sequence of steps moves fewer bytes or takes less time on one placement") {
  for (const auto& extents : std::vector<std::vector<std::int64_t>>{{3}, {2, 2}, {2, 3}, {4, 2}}) {
    const WordTable words = table(extents, kFour, 2);
    for (const Shape& shape : kShapes) {
      check_minimal(words, words, {shape, DType::kI64}, nullptr);
      for (const NetworkModel* network : oracle::networks())
        check_minimal(words, words, {shape, DType::kI64}, network);
    }
  }
}

TEST_CASE("no other steps cost less with three dims to split, or with two kinds of reductions") {
  const WordTable three = table({2, 3}, kFive, 3);
  for (const Shape& shape : {Shape{5, 3, 2}, Shape{2, 1, 7}, Shape{600, 60, 40}}) {
    check_minimal(three, three, {shape, DType::kI64}, nullptr);
    for (const NetworkModel* network : oracle::networks())
      check_minimal(three, three, {shape, DType::kI64}, network);
  }
  const WordTable two =
      table({2, 2}, {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial(), kMax}, 2);
  check_minimal(two, two, {Shape{5, 3}, DType::kI64}, nullptr);
  check_minimal(two, two, {Shape{5, 3}, DType::kI64}, oracle::networks().front());
}

TEST_CASE("no other steps cost less on three axes") {
  const WordTable words = table({2, 2, 2}, kFour, 2);
  for (const Shape& shape : {Shape{5, 3}, Shape{80, 400}}) {
    check_minimal(words, words, {shape, DType::kI64}, nullptr, 1500);
    for (const NetworkModel* network : oracle::networks())
      check_minimal(words, words, {shape, DType::kI64}, network, 500);
  }
}

TEST_CASE("no other steps cost less between any two placements") {
  const WordTable four = table({4}, kFour, 2), square = table({2, 2}, kFour, 2);
  const std::vector<WordTable> others = {
      table({2, 2}, kFour, 2, 2),
      table({2, 2}, kFour, 2, 10),
      table({4}, kFour, 2, 1),
      table({3}, kFour, 2),
      table({2, 3}, kFour, 2),
      WordTable(mesh_on({2, 2}, {3, 1, 0, 2}), all_words(2, kFour), 2),
      WordTable(mesh_on({4}, {0, 2, 1, 3}), all_words(1, kFour), 2)};
  for (const WordTable& target : others)
    for (const Shape& shape : {Shape{5, 3}, Shape{4, 8}, Shape{400, 600}})
      for (const WordTable* source : {&four, &square}) {
        check_minimal(*source, target, {shape, DType::kI64}, nullptr);
        for (const NetworkModel* network : oracle::networks())
          check_minimal(*source, target, {shape, DType::kI64}, network);
      }
}

TEST_CASE("no other steps cost less with another element type on the way") {
  const WordTable words = table({2, 3}, kFour, 2), other = table({2, 2}, kFour, 2, 4);
  for (const auto& [from, to, reduce] : {std::tuple(DType::kF32, DType::kBF16, DType::kF32),
                                         std::tuple(DType::kBF16, DType::kF32, DType::kF32),
                                         std::tuple(DType::kBF16, DType::kBF16, DType::kF32),
                                         std::tuple(DType::kF32, DType::kBF16, DType::kF64)})
    for (const Shape& shape : {Shape{5, 3}, Shape{400, 600}}) {
      check_minimal(words, words, {shape, from}, nullptr, 0, to, reduce);
      check_minimal(words, other, {shape, from}, nullptr, 0, to, reduce);
      check_minimal(words, words, {shape, from}, oracle::networks().back(), 0, to, reduce);
    }
}

// Slices, fills and casts take time as well.
TEST_CASE("no other steps take less time where devices need time for what they do alone") {
  const WordTable four = table({2, 2}, kFour, 2), six = table({2, 3}, kFour, 2);
  const WordTable next = table({2, 2}, kFour, 2, 2), row = table({4}, kFour, 2);
  const WordTable cube = table({2, 2, 2}, kFour, 2);
  for (const CostModel* cost : oracle::devices())
    for (const NetworkModel* network : oracle::networks()) {
      const auto check = [&](const WordTable& from, const WordTable& to, const Shape& shape,
                             std::size_t sample = 0) {
        check_minimal(from, to, {shape, DType::kI64}, network, sample, {}, {}, cost);
      };
      for (const Shape& shape : kShapes) {
        check(four, four, shape);
        check(six, six, shape);
      }
      for (const Shape& shape : {Shape{5, 3}, Shape{400, 600}}) {
        check(cube, cube, shape, 500);
        check(four, next, shape);
        check(four, row, shape);
        check(row, next, shape);
        check_minimal(six, next, {shape, DType::kBF16}, network, 0, DType::kBF16, DType::kF32,
                      cost);
        check_minimal(six, six, {shape, DType::kF32}, network, 0, DType::kBF16, DType::kF32, cost);
      }
    }
}

TEST_CASE("an alternative is the cheapest plan that begins with its first communication") {
  const WordTable words = table({2, 2}, kFour, 2), other = table({4}, kFour, 2, 2);
  for (const WordTable* target : {&words, &other})
    for (const NetworkModel* network :
         {oracle::networks().front(), static_cast<const NetworkModel*>(nullptr)}) {
      BoxingRequest request{
          .type = {Shape{8, 12}, DType::kI64},
          .from_placement = &words.placement(),
          .to_placement = &target->placement(),
          .from = {},
          .to = {},
          .objective = network != nullptr ? BoxingObjective::kTime : BoxingObjective::kBytes,
          .network = network,
          .cost = oracle::devices().front()};
      const BruteForce brute(words, *target, request, network);
      for (const NdSbp& from : words.words())
        for (const NdSbp& to : target->words()) {
          request.from = from;
          request.to = to;
          const std::vector<BoxingPlan> plans = plan_alternatives(request, 5);
          REQUIRE(!plans.empty());
          CHECK(plans.front().steps == plan_boxing(request).steps);
          CHECK(plans.size() <= 6);
          std::vector<std::string> beginnings;
          std::int64_t last = 0;
          for (const BoxingPlan& plan : plans) {
            oracle::check_plan(request, plan);
            const std::int64_t cost = network != nullptr ? plan.time.value : plan.total_bytes.value;
            CHECK(cost >= last);
            last = cost;
            const auto first =
                std::find_if(plan.steps.begin(), plan.steps.end(),
                             [](const auto& step) { return is_communication(step.kind); });
            beginnings.push_back(first == plan.steps.end() ? "" : to_string(*first));
            if (first == plan.steps.end()) continue;
            CHECK(cost == brute.price_before_communication(plan) + brute.price(*first) +
                              brute.cost_after(*first, to));
          }
          std::sort(beginnings.begin(), beginnings.end());
          CHECK(std::adjacent_find(beginnings.begin(), beginnings.end()) == beginnings.end());
        }
    }
}

}  // namespace
}  // namespace sextant::boxing_minimal_test
