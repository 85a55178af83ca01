// Plans executed on small tensors: they keep the global value and move exactly the bytes they say,
// between all kinds of placements. The largest sweeps are sampled, with a fixed seed.
#include "tests/sbp/boxing_cases.h"
#include "tests/sbp/boxing_oracle.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace sextant::boxing_values_test {
namespace {

using oracle::all_words;
using oracle::check_boxing;
using oracle::interesting_extents;
using oracle::mesh;
using oracle::mesh_on;

const Sbp kMax = Sbp::partial(ReduceOp::kMax), kMin = Sbp::partial(ReduceOp::kMin);
const std::vector<Sbp> kFour = {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()};
const std::vector<Sbp> kSeven = {Sbp::split(0),  Sbp::split(1), Sbp::split(2), Sbp::broadcast(),
                                 Sbp::partial(), kMax,          kMin};

// Devices of two placements: equal, permuted, one inside the other, overlapping, disjoint.
struct Sets {
  std::string name;
  std::vector<int> from, to;
};

std::vector<int> counted(std::int64_t devices, int first = 0) {
  std::vector<int> result(static_cast<std::size_t>(devices));
  std::iota(result.begin(), result.end(), first);
  return result;
}

std::vector<Sets> all_sets(std::int64_t sources, std::int64_t targets) {
  std::vector<int> permuted = counted(targets);
  std::mt19937 random(3);
  std::shuffle(permuted.begin(), permuted.end(), random);
  std::vector<int> woven;  // every second device of the source, and others
  for (std::int64_t device = 0; device < targets; ++device)
    woven.push_back(static_cast<int>(2 * device + 1));
  return {{"from the first device", counted(sources), counted(targets)},
          {"permuted", counted(sources), permuted},
          {"overlapping", counted(sources), counted(targets, static_cast<int>(sources) - 1)},
          {"woven", counted(sources), woven},
          {"disjoint", counted(sources), counted(targets, static_cast<int>(sources) + 3)}};
}

TEST_CASE("boxing keeps the global value for all pairs of words on one axis") {
  const std::vector<NdSbp> words = all_words(1, kSeven);
  int plans = 0;
  for (std::int64_t parts = 1; parts <= 8; ++parts)
    for (const std::int64_t rows : interesting_extents(parts))
      for (const std::int64_t columns : interesting_extents(parts))
        for (const NdSbp& from : words)
          for (const NdSbp& to : words) {
            check_boxing(Shape{rows, columns, 2}, mesh({parts}), from, mesh({parts}), to);
            ++plans;
          }
  CHECK(plans > 8000);
}

TEST_CASE("boxing keeps the global value from 1 to 8 devices to 1 to 8 others, or the same") {
  const std::vector<NdSbp> words =
      all_words(1, {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial(), kMax});
  for (std::int64_t sources = 1; sources <= 8; ++sources)
    for (std::int64_t targets = 1; targets <= 8; ++targets)
      for (const Sets& sets : all_sets(sources, targets)) {
        CAPTURE(sets.name);
        const Placement from = mesh_on({sources}, sets.from), to = mesh_on({targets}, sets.to);
        for (const NdSbp& a : words)
          for (const NdSbp& b : words) check_boxing(Shape{7, 3}, from, a, to, b);
      }
}

TEST_CASE("boxing keeps the global value for all pairs of words on two axes") {
  const std::vector<NdSbp> words = all_words(2, kFour);
  REQUIRE(words.size() == 18);  // 16 and two with reversed nesting
  for (const auto& extents :
       std::vector<std::vector<std::int64_t>>{{2, 2}, {2, 3}, {3, 2}, {4, 2}, {1, 3}})
    for (const std::int64_t rows : interesting_extents(extents[0] * extents[1]))
      for (const std::int64_t columns : {std::int64_t{1}, extents[1] + 1})
        for (const NdSbp& from : words)
          for (const NdSbp& to : words)
            check_boxing(Shape{rows, columns}, mesh(extents), from, mesh(extents), to);
}

TEST_CASE("boxing keeps the global value for all pairs of words on three axes") {
  const std::vector<NdSbp> words = all_words(3, kFour);
  const Placement placement = mesh({2, 2, 2});
  for (const NdSbp& from : words)
    for (const NdSbp& to : words) check_boxing(Shape{5, 3}, placement, from, placement, to);
}

TEST_CASE("boxing keeps the global value between other meshes of the same or other devices") {
  const std::vector<std::vector<std::int64_t>> meshes = {{1},    {2},    {4},    {2, 2},
                                                         {2, 3}, {3, 2}, {4, 2}, {2, 2, 2}};
  const std::vector<Shape> shapes = {{5, 3}, {1, 7}, {0, 2}, {8, 6}, {13, 1}};
  std::mt19937_64 random(11);
  int plans = 0;
  for (const auto& source : meshes)
    for (const auto& target : meshes) {
      const std::vector<NdSbp> from = all_words(source.size(), kFour),
                               to = all_words(target.size(), kFour);
      for (const Sets& sets : all_sets(mesh(source).size(), mesh(target).size())) {
        CAPTURE(sets.name);
        const Placement a = mesh_on(source, sets.from), b = mesh_on(target, sets.to);
        for (int i = 0; i < 60; ++i, ++plans) {
          const Shape shape = shapes[random() % shapes.size()];
          check_boxing(shape, a, from[random() % from.size()], b, to[random() % to.size()]);
        }
      }
    }
  CHECK(plans == 8 * 8 * 5 * 60);
}

TEST_CASE("boxing keeps the global value of all 256 pairs of words on 2 x 2, wherever it goes") {
  const std::vector<NdSbp> words = all_words(2, kFour);
  for (const Sets& sets : all_sets(4, 4)) {
    CAPTURE(sets.name);
    const Placement from = mesh_on({2, 2}, sets.from), to = mesh_on({2, 2}, sets.to);
    for (const NdSbp& a : words)
      for (const NdSbp& b : words) check_boxing(Shape{5, 3}, from, a, to, b);
  }
}

TEST_CASE("pending maxima and minima are boxed between all kinds of placements too") {
  const std::vector<NdSbp> words = all_words(2, {Sbp::split(0), Sbp::broadcast(), kMax, kMin});
  for (const auto& target : std::vector<std::vector<std::int64_t>>{{2, 2}, {2, 3}})
    for (const Sets& sets : all_sets(4, mesh(target).size())) {
      CAPTURE(sets.name);
      const Placement from = mesh_on({2, 2}, sets.from), to = mesh_on(target, sets.to);
      for (const NdSbp& a : words)
        for (const NdSbp& b : words) check_boxing(Shape{5}, from, a, to, b);
    }
}

TEST_CASE("scalars are boxed too") {
  for (const Sbp& from : {Sbp::broadcast(), Sbp::partial()})
    for (const Sbp& to : {Sbp::broadcast(), Sbp::partial(), kMax})
      for (const int first : {0, 3, 10})
        check_boxing(Shape{}, mesh({3, 2}), {from, from}, mesh({3, 2}, first), {to, to});
}

TEST_CASE("large extents are boxed exactly") {
  // Not executed: the reference volumes are summed instead.
  const Shape shape{1'000'003, 65'537};
  for (const NdSbp& from : all_words(2, kFour))
    for (const NdSbp& to : all_words(2, kFour)) {
      const Placement source = mesh({4, 2}), target = mesh({2, 3}, 5);
      const BoxingRequest request = oracle::request_by_bytes(shape, source, from, target, to);
      const BoxingPlan plan = plan_boxing(request);
      std::int64_t bytes = 0;
      for (const BoxingStep& step : plan.steps) bytes += oracle::bytes_of(step, request);
      CHECK(bytes == plan.total_bytes.value);
    }
}

}  // namespace
}  // namespace sextant::boxing_values_test
