// Merging and splitting of mesh axes: the closed form against the boxes of all devices.
#include "sbp/hierarchy.h"

#include "core/base/error.h"
#include "core/tensors/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>

namespace sextant::hierarchy_test {
namespace {

// What each device holds, as text: boxes without elements along a dim are equal wherever they lie.
std::vector<std::string> holdings(const WordsOnMesh& mesh, const Shape& shape) {
  Placement placement;
  for (const std::int64_t extent : mesh.extents) placement.axes.push_back({"axis", extent});
  const std::int64_t devices = std::accumulate(mesh.extents.begin(), mesh.extents.end(),
                                               std::int64_t{1}, std::multiplies<>());
  std::vector<std::string> texts;
  for (std::int64_t device = 0; device < devices; ++device) {
    const auto coordinates = placement.coordinates_of(static_cast<std::size_t>(device));
    std::string text;
    for (const Interval& dim : shard_of(shape, mesh.words, mesh.extents, coordinates).dims)
      text += dim.extent == 0
                  ? "[)"
                  : "[" + std::to_string(dim.offset) + "+" + std::to_string(dim.extent) + ")";
    texts.push_back(text);
  }
  return texts;
}

// How many addends each reduction has, by operation: merging must neither hide nor add any.
std::vector<std::int64_t> addends(const WordsOnMesh& mesh) {
  std::vector<std::int64_t> counts(3, 1);
  for (std::size_t axis = 0; axis < mesh.extents.size(); ++axis)
    if (mesh.words[axis].is_partial())
      counts[static_cast<std::size_t>(mesh.words[axis].reduce)] *= mesh.extents[axis];
  return counts;
}

// The obvious merge, without asking whether it may be.
WordsOnMesh forced(const WordsOnMesh& mesh, std::size_t axis) {
  WordsOnMesh merged = mesh;
  const auto behind = static_cast<std::ptrdiff_t>(axis) + 1;
  const auto nesting = [](const Sbp& word) { return word.nesting; };
  if (merged.extents[axis] == 1 || (merged.extents[axis + 1] != 1 &&
                                    nesting(merged.words[axis + 1]) < nesting(merged.words[axis])))
    merged.words[axis] = merged.words[axis + 1];
  merged.extents[axis] *= merged.extents[axis + 1];
  const Sbp gone = mesh.words[axis] == merged.words[axis] ? mesh.words[axis + 1] : mesh.words[axis];
  merged.words.erase(merged.words.begin() + behind);
  merged.extents.erase(merged.extents.begin() + behind);
  for (Sbp& word : merged.words)
    if (gone.is_split() && word.is_split() && word.dim == gone.dim && word.nesting > gone.nesting)
      --word.nesting;
  return merged;
}

TEST_CASE("two splits are one exactly where no part moves, for extents to 200 over up to 8 x 8") {
  for (std::int64_t a = 1; a <= 8; ++a)
    for (std::int64_t b = 1; b <= 8; ++b)
      for (std::int64_t n = 0; n <= 200; ++n) {
        bool same = true;
        for (std::int64_t i = 0; i < a; ++i)
          for (std::int64_t j = 0; j < b; ++j) {
            const Interval outer = balanced_part(n, a, i),
                           inner = balanced_part(outer.extent, b, j);
            const Interval one = balanced_part(n, a * b, i * b + j);
            same = same && inner.extent == one.extent &&
                   (one.extent == 0 || outer.offset + inner.offset == one.offset);
          }
        if (splits_merge(n, a, b) != same) {
          CAPTURE(n);
          CAPTURE(a);
          CAPTURE(b);
          CHECK(splits_merge(n, a, b) == same);
        }
      }
  // The rule as the specification states it.
  for (std::int64_t a = 2; a <= 8; ++a)
    for (std::int64_t b = 2; b <= 8; ++b)
      for (std::int64_t n = 0; n <= 200; ++n) {
        const std::int64_t rest = n % (a * b);
        CHECK(splits_merge(n, a, b) == (rest == 0 || rest == 1 || rest == a * b - 1));
      }
}

TEST_CASE("below other splits two splits are one exactly where no device's box changes") {
  std::int64_t allowed = 0, refused = 0;
  // Splits of one dim over three axes: every nesting order and every pair of neighbours.
  for (const std::vector<std::int64_t>& extents : {std::vector<std::int64_t>{2, 2, 2},
                                                   {2, 3, 2},
                                                   {3, 2, 2},
                                                   {2, 2, 3},
                                                   {4, 2, 2},
                                                   {1, 3, 2},
                                                   {2, 1, 3},
                                                   {3, 3, 1},
                                                   {2, 4, 3}}) {
    std::vector<int> order = {1, 2, 3};
    do {
      WordsOnMesh mesh{{Sbp::split(0, order[0]), Sbp::split(0, order[1]), Sbp::split(0, order[2])},
                       extents};
      for (std::int64_t n = 0; n <= 100; ++n)
        for (std::size_t axis = 0; axis < 2; ++axis) {
          const Shape shape{n};
          const auto merged = merge_axes(mesh, axis, shape);
          const WordsOnMesh obvious = forced(mesh, axis);
          const bool same = holdings(mesh, shape) == holdings(obvious, shape);
          ++(same ? allowed : refused);
          CAPTURE(to_string(mesh.words));
          CAPTURE(n);
          CAPTURE(axis);
          REQUIRE(merged.has_value() == same);
          if (merged) REQUIRE(holdings(*merged, shape) == holdings(mesh, shape));
        }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  CHECK(allowed > 1000);
  CHECK(refused > 1000);
}

TEST_CASE("merging any axes of any mesh changes nothing that a device holds") {
  std::mt19937 random(7);
  const auto below = [&](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  std::int64_t allowed = 0;
  for (int round = 0; round < 20000; ++round) {
    WordsOnMesh mesh;
    const Shape shape{below(14), below(5)};
    const int num_axes = 2 + below(3);
    for (int axis = 0; axis < num_axes; ++axis) {
      const Sbp words[] = {Sbp::broadcast(), Sbp::partial(), Sbp::split(0), Sbp::split(1),
                           Sbp::partial(ReduceOp::kMax)};
      mesh.words.push_back(words[below(5)]);
      mesh.extents.push_back(1 + below(4));
    }
    const auto axis = static_cast<std::size_t>(below(num_axes - 1));
    CAPTURE(to_string(mesh.words));
    const auto merged = merge_axes(mesh, axis, shape);
    if (!merged) {
      const bool small = mesh.extents[axis] == 1 || mesh.extents[axis + 1] == 1;
      REQUIRE_FALSE(small);  // axes of extent 1 always merge
      const bool equal = mesh.words[axis] == mesh.words[axis + 1];
      REQUIRE((!equal || mesh.words[axis].is_split()));  // equal B and P do too
      continue;
    }
    ++allowed;
    REQUIRE(holdings(*merged, shape) == holdings(mesh, shape));
    REQUIRE(addends(*merged) == addends(mesh));
    REQUIRE(canonical(merged->words) == merged->words);
    // And back.
    const auto again = split_axis(*merged, axis, mesh.extents[axis], shape);
    if (again) REQUIRE(holdings(*again, shape) == holdings(mesh, shape));
  }
  CHECK(allowed > 3000);
}

TEST_CASE("an axis splits exactly where its parts merge again") {
  for (std::int64_t n = 0; n <= 60; ++n)
    for (std::int64_t extent = 1; extent <= 12; ++extent)
      for (std::int64_t major = 1; major <= extent; ++major) {
        if (extent % major != 0) continue;
        for (const Sbp& word : {Sbp::split(0), Sbp::broadcast(), Sbp::partial(ReduceOp::kMin)}) {
          const WordsOnMesh mesh{{word, Sbp::split(0)}, {extent, 2}};
          const Shape shape{n};
          const auto parts = split_axis(mesh, 0, major, shape);
          const bool wanted = !word.is_split() || splits_merge(n, major, extent / major);
          REQUIRE(parts.has_value() == wanted);
          if (!parts) continue;
          REQUIRE(parts->extents == std::vector<std::int64_t>{major, extent / major, 2});
          REQUIRE(holdings(*parts, shape) == holdings(mesh, shape));
          const auto again = merge_axes(*parts, 0, shape);
          REQUIRE(again.has_value());
          REQUIRE(again->extents == mesh.extents);
          if (extent > 1) REQUIRE(again->words == mesh.words);
        }
      }
}

TEST_CASE("20 over [2, 3] is not 20 over [6], and 24, 25 and 23 are") {
  const WordsOnMesh mesh{{Sbp::split(0), Sbp::split(0)}, {2, 3}};
  CHECK_FALSE(merge_axes(mesh, 0, Shape{20}));  // 4,3,3,4,3,3 is not 4,4,3,3,3,3
  for (const std::int64_t n : {24, 25, 23})
    CHECK(merge_axes(mesh, 0, Shape{n}) == WordsOnMesh{{Sbp::split(0)}, {6}});
  // Below a split over 2, 45 elements are 23 and 22, and 22 mod 6 is neither 0, 1 nor 5.
  const WordsOnMesh below{{Sbp::split(0), Sbp::split(0), Sbp::split(0)}, {2, 2, 3}};
  CHECK_FALSE(merge_axes(below, 1, Shape{45}));
  CHECK(merge_axes(below, 1, Shape{47}));  // 24 and 23
  // Minor axis outside: one axis cannot say that, but for extents of no more than its parts.
  const WordsOnMesh turned{{Sbp::split(0, 2), Sbp::split(0, 1)}, {2, 3}};
  CHECK_FALSE(merge_axes(turned, 0, Shape{6}));
  CHECK(merge_axes(turned, 0, Shape{3}));
}

TEST_CASE("different words and different reductions do not merge") {
  const Shape shape{8, 8};
  const auto merges = [&](Sbp a, Sbp b) {
    return merge_axes({{a, b}, {2, 2}}, 0, shape).has_value();
  };
  CHECK(merges(Sbp::broadcast(), Sbp::broadcast()));
  CHECK(merges(Sbp::partial(), Sbp::partial()));
  CHECK(merges(Sbp::split(1), Sbp::split(1)));
  CHECK_FALSE(merges(Sbp::split(0), Sbp::split(1)));
  CHECK_FALSE(merges(Sbp::partial(), Sbp::partial(ReduceOp::kMax)));
  CHECK_FALSE(merges(Sbp::partial(), Sbp::broadcast()));
  CHECK_FALSE(merges(Sbp::broadcast(), Sbp::split(0)));
  CHECK_THROWS_AS(merge_axes({{Sbp::broadcast()}, {2}}, 0, shape), Error);
  CHECK_THROWS_AS(merge_axes({{Sbp::split(2), Sbp::split(2)}, {2, 2}}, 0, shape), Error);
  CHECK_THROWS_AS(split_axis({{Sbp::broadcast()}, {6}}, 0, 4, shape), Error);
}

}  // namespace
}  // namespace sextant::hierarchy_test
