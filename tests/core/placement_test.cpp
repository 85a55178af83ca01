// Placements: coordinates, text and what is refused.
#include "core/tensors/placement.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

namespace sextant::placement_test {
namespace {

TEST_CASE("the last axis is the fastest") {
  const Placement placement = consecutive_placement({{"dp", 2}, {"tp", 4}}, Rank(8));
  CHECK(placement.size() == 8);
  CHECK(placement.ranks.front() == Rank(8));
  CHECK(placement.coordinates_of(6) == std::vector<std::int64_t>{1, 2});
  CHECK(placement.index_of_coordinates({1, 2}) == 6);
  CHECK(placement.hierarchy() == std::vector<std::int64_t>{2, 4});
  CHECK(to_string(placement) == "[dp=2, tp=4]");
  CHECK_NOTHROW(validate(placement));
}

TEST_CASE("text of a mesh reads back") {
  for (const char* const text : {"[dp=2, tp=4]", "[x=1]", "[]"})
    CHECK(to_string(parse_mesh_axes(text)) == text);
  CHECK(to_string(parse_mesh_axes("[ dp=2,tp=4 ]")) == "[dp=2, tp=4]");
}

TEST_CASE("a text that is no mesh is refused with its column") {
  const auto refused = [](const char* text, const char* part) {
    try {
      parse_mesh_axes(text);
    } catch (const Error& error) {
      return std::string(error.what()).find(part) != std::string::npos;
    }
    return false;
  };
  CHECK(refused("dp=2", "'[' at column 1"));
  CHECK(refused("[dp 2]", "'=' at column 4"));
  CHECK(refused("[dp=two]", "an extent at column 5"));
  CHECK(refused("[dp=2", "',' or ']' at column 6"));
  CHECK(refused("[dp=2,]", "an axis name at column 7"));
  CHECK(refused("[dp=2] x", "the end at column 7"));
  CHECK(refused("[dp=2, dp=3]", "the axis 'dp' twice"));
  CHECK(refused("[dp=0]", "extent 0, wanted 1 or more"));
  CHECK(refused("[a=65536, b=65536]", "more than 2^30 devices"));
}

TEST_CASE("devices that are missing, repeated or no devices are refused") {
  Placement placement = consecutive_placement({{"dp", 2}, {"tp", 2}});
  placement.ranks.pop_back();
  CHECK_THROWS_WITH_AS(validate(placement),
                       "[dp=2, tp=2] has 4 coordinates but 3 devices were given", Error);
  placement.ranks.push_back(Rank(1));
  CHECK_THROWS_WITH_AS(validate(placement), "[dp=2, tp=2]: the device 1 is named twice", Error);
  placement.ranks.back() = Rank();
  CHECK_THROWS_WITH_AS(validate(placement), "[dp=2, tp=2]: -1 is not a device", Error);
}

}  // namespace
}  // namespace sextant::placement_test
