// SBP words: text, and the law that boxes hold every global index the right number of times.
#include "core/tensors/sbp.h"

#include "core/base/error.h"
#include "core/tensors/placement.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace sextant::sbp_test {
namespace {

using Indices = std::vector<std::int64_t>;

// The obvious split: deal out the elements of a list one part after the other.
Indices part_of(const Indices& all, std::int64_t parts, std::int64_t index) {
  std::vector<Indices> result(static_cast<std::size_t>(parts));
  std::size_t next = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto size = static_cast<std::int64_t>(all.size());
    const std::int64_t count = size / parts + (part < size % parts ? 1 : 0);
    for (std::int64_t i = 0; i < count; ++i)
      result[static_cast<std::size_t>(part)].push_back(all[next++]);
  }
  return result[static_cast<std::size_t>(index)];
}

// What the device at `coordinates` holds of `dim`, splitting lists of indices axis by axis.
Indices oracle(std::int64_t extent, std::size_t dim, const NdSbp& words,
               const std::vector<std::int64_t>& hierarchy,
               const std::vector<std::int64_t>& coordinates) {
  std::map<std::pair<int, std::size_t>, std::size_t> axes;  // (nesting, axis): outermost first
  for (std::size_t axis = 0; axis < words.size(); ++axis)
    if (words[axis].is_split() && words[axis].dim == dim) axes[{words[axis].nesting, axis}] = axis;
  Indices held(static_cast<std::size_t>(extent));
  std::iota(held.begin(), held.end(), std::int64_t{0});
  for (const auto& [order, axis] : axes) held = part_of(held, hierarchy[axis], coordinates[axis]);
  return held;
}

Indices indices_of(const Interval& interval) {
  Indices indices(static_cast<std::size_t>(interval.extent));
  std::iota(indices.begin(), indices.end(), interval.offset);
  return indices;
}

// For every device the box is the oracle's, and every global index is held by exactly as many
// devices as the axes that do not split have coordinates.
void check_shards(const Shape& global, const NdSbp& words,
                  const std::vector<std::int64_t>& hierarchy) {
  Placement placement;
  for (const std::int64_t extent : hierarchy) placement.axes.push_back({"axis", extent});
  std::int64_t devices = 1, copies = 1;
  for (std::size_t axis = 0; axis < words.size(); ++axis) {
    devices *= hierarchy[axis];
    if (!words[axis].is_split()) copies *= hierarchy[axis];
  }
  std::map<Indices, std::int64_t> held;
  for (std::int64_t device = 0; device < devices; ++device) {
    const auto coordinates = placement.coordinates_of(static_cast<std::size_t>(device));
    CHECK(placement.index_of_coordinates(coordinates) == static_cast<std::size_t>(device));
    const Shard shard = shard_of(global, words, hierarchy, coordinates);
    REQUIRE(shard.dims.size() == global.rank());
    for (std::size_t dim = 0; dim < global.rank(); ++dim)
      CHECK(indices_of(shard.dims[dim]) == oracle(global[dim], dim, words, hierarchy, coordinates));
    CHECK(shard.is_empty() == (shard.local_shape().elements() == 0));
    for (const std::int64_t row : indices_of(shard.dims[0]))
      for (const std::int64_t column : indices_of(shard.dims[1])) ++held[{row, column}];
  }
  CHECK(held.size() == static_cast<std::size_t>(global.elements()));
  for (const auto& [index, count] : held) CHECK(count == copies);
}

TEST_CASE("every global index is held by exactly the right devices") {
  const std::vector<Sbp> all = {Sbp::split(0), Sbp::split(1), Sbp::broadcast(), Sbp::partial()};
  for (std::int64_t rows = 0; rows <= 7; ++rows)
    for (std::int64_t columns = 0; columns <= 3; ++columns)
      for (std::int64_t major = 1; major <= 4; ++major)
        for (std::int64_t minor = 1; minor <= 3; ++minor)
          for (const Sbp& first : all)
            for (const Sbp& second : all)
              check_shards(Shape{rows, columns}, {first, second}, {major, minor});
}

TEST_CASE("nested splits of one dim hold every index once, in every order of nesting") {
  std::vector<int> order = {1, 2, 3};
  do {
    for (std::int64_t rows = 0; rows <= 13; ++rows)
      for (std::int64_t a = 1; a <= 3; ++a)
        for (std::int64_t b = 1; b <= 3; ++b)
          check_shards(Shape{rows, 1},
                       {Sbp::split(0, order[0]), Sbp::split(0, order[1]), Sbp::split(0, order[2])},
                       {a, b, 2});
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("G06: values 0..4 over 2x2 split minor-first are [0,1] [3] / [2] [4], not axis order") {
  const Shape global{5};
  const std::vector<std::int64_t> mesh = {2, 2};  // data, model
  const auto box = [&](const NdSbp& words, std::int64_t data, std::int64_t model) {
    return indices_of(
        shard_of(global, words, mesh, std::vector<std::int64_t>{data, model}).dims[0]);
  };
  // The model axis splits first: 0,1,2 | 3,4; then data splits each half.
  const NdSbp minor_first = parse_nd_sbp("(S(0)^2, S(0)^1)");
  CHECK(box(minor_first, 0, 0) == Indices{0, 1});
  CHECK(box(minor_first, 1, 0) == Indices{2});
  CHECK(box(minor_first, 0, 1) == Indices{3});
  CHECK(box(minor_first, 1, 1) == Indices{4});
  // The data axis first, which is what no superscripts mean.
  const NdSbp axis_order = parse_nd_sbp("(S(0), S(0))");
  CHECK(box(axis_order, 0, 1) == Indices{2});
  CHECK(box(axis_order, 1, 0) == Indices{3});
}

TEST_CASE("a balanced split gives one more to the first parts") {
  std::vector<std::int64_t> extents;
  for (std::int64_t part = 0; part < 6; ++part)
    extents.push_back(balanced_part(20, 6, part).extent);
  CHECK(extents == std::vector<std::int64_t>{4, 4, 3, 3, 3, 3});
  CHECK(balanced_part(2, 4, 3) == Interval{.offset = 2, .extent = 0});
}

TEST_CASE("words read back from their text") {
  for (const char* const text : {"S(0)", "B", "P(sum)", "P(max)", "P(min)", "(S(0), B)",
                                 "(B, P(max))", "(S(0)^2, S(0)^1)", "(S(3), S(15), P(sum))", "()"})
    CHECK(to_string(parse_nd_sbp(text)) == text);
  CHECK(to_string(parse_nd_sbp("P")) == "P(sum)");
  CHECK(to_string(parse_nd_sbp(" ( S(0) ,B ) ")) == "(S(0), B)");
  CHECK(to_string(parse_nd_sbp("(S(0))")) == "S(0)");
}

TEST_CASE("a mistake in words is refused with its column") {
  const auto place = [](const char* text) -> std::string {
    try {
      parse_nd_sbp(text);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::kUsage);
      const std::string what = error.what();
      return what.substr(what.find("wanted"));
    }
    return "accepted";
  };
  CHECK(place("(S(0), X)") == "wanted S(dim), B or P(sum|max|min) at column 8");
  CHECK(place("(S(0), B") == "wanted ',' or ')' at column 9");
  CHECK(place("S(a)") == "wanted a number from 0 to 15 at column 3");
  CHECK(place("S(16)") == "wanted a number from 0 to 15 at column 3");
  CHECK(place("S0") == "wanted '(' at column 2");
  CHECK(place("P(avg)") == "wanted sum, max or min at column 3");
  CHECK(place("B B") == "wanted the end at column 3");
  CHECK(place("S(0)^0") == "wanted a nesting position from 1 to 15 at column 6");
  CHECK(place("") == "wanted S(dim), B or P(sum|max|min) at column 1");
}

TEST_CASE("nesting positions that leave the order open are refused") {
  for (const char* const text :
       {"(S(0), S(0)^1)", "(S(0)^1, S(0)^1)", "(S(0)^2, S(0)^3)", "(S(0)^2, B)"})
    CHECK_THROWS_AS(parse_nd_sbp(text), Error);
  CHECK_NOTHROW(parse_nd_sbp("(S(0)^2, S(0)^1, S(1)^1)"));
}

TEST_CASE("canonical words drop positions that repeat the axis order, and only those") {
  CHECK(to_string(canonical(parse_nd_sbp("(S(0)^1, S(0)^2)"))) == "(S(0), S(0))");
  CHECK(to_string(canonical(parse_nd_sbp("(S(0)^1, S(1)^1)"))) == "(S(0), S(1))");
  CHECK(to_string(canonical(parse_nd_sbp("(S(0)^2, S(0)^1)"))) == "(S(0)^2, S(0)^1)");
}

TEST_CASE("a split of a dim that the tensor lacks names both") {
  const std::vector<std::int64_t> mesh = {2}, here = {0};
  CHECK_THROWS_WITH_AS(shard_of(Shape{5, 7}, {Sbp::split(2)}, mesh, here),
                       "S(2) splits dim 2, but the shape 5x7 has 2 dims", Error);
  CHECK_THROWS_AS(shard_of(Shape{5, 7}, {Sbp::split(0), Sbp::broadcast()}, mesh, here), Error);
}

TEST_CASE("the intersection of two boxes holds exactly the indices of both") {
  for (std::int64_t a = 0; a <= 4; ++a)
    for (std::int64_t b = 0; b <= 4; ++b)
      for (std::int64_t size_a = 0; size_a <= 4; ++size_a)
        for (std::int64_t size_b = 0; size_b <= 4; ++size_b) {
          const Shard both = intersect({{{a, size_a}}}, {{{b, size_b}}});
          std::set<std::int64_t> wanted;
          for (const std::int64_t index : indices_of({a, size_a}))
            if (index >= b && index < b + size_b) wanted.insert(index);
          const Indices found = indices_of(both.dims[0]);
          CHECK(std::set(found.begin(), found.end()) == wanted);
        }
  CHECK_THROWS_AS(intersect({{{0, 1}}}, {{{0, 1}, {0, 1}}}), Error);
}

}  // namespace
}  // namespace sextant::sbp_test
