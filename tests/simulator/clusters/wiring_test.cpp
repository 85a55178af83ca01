// Shares of a link's bandwidth that its wiring leaves a group, solved by hand.

#include "simulator/clusters/wiring.h"

#include "core/base/error.h"
#include "simulator/clusters/builtin_links.h"
#include "simulator/clusters/cable_rings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace sextant::wiring_test {
namespace {

using Positions = std::vector<std::int32_t>;

Positions first(std::int32_t count) {
  Positions positions(static_cast<std::size_t>(count));
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

NetworkLink wired(Wiring wiring) {
  NetworkLink link;
  link.wiring = wiring;
  return link;
}

NetworkLink torus(std::vector<std::int64_t> extents) {
  NetworkLink link = wired(Wiring::kTorus);
  link.extents = std::move(extents);
  return link;
}

// Brute force: shortest ways, halves where both are as short, over lanes of 1 / (2 dims).
double spread_by_ways(const std::vector<std::int64_t>& extents, const Positions& members) {
  std::int64_t ends = 1;
  for (const std::int64_t extent : extents) ends *= extent;
  std::vector<double> load(static_cast<std::size_t>(ends * 2) * extents.size());
  const double part = 1 / (static_cast<double>(members.size()) - 1);
  for (const std::int64_t from : members)
    for (const std::int64_t to : members) {
      std::int64_t here = from, stride = 1;
      for (std::size_t dim = extents.size(); dim-- > 0; stride *= extents[dim]) {
        const std::int64_t extent = extents[dim];
        const std::int64_t goal = to / stride % extent, start = from / stride % extent;
        const std::int64_t up = (goal - start + extent) % extent;
        for (int direction = 0; direction < 2; ++direction) {
          const std::int64_t length = direction == 0 ? up : extent - up;
          const double share = up * 2 == extent ? 0.5 : length * 2 < extent ? 1 : 0;
          std::int64_t coordinate = start;
          for (std::int64_t step = 0; up != 0 && step < length; ++step) {
            const std::int64_t end = here + (coordinate - start) * stride;
            load[(static_cast<std::size_t>(end) * extents.size() + dim) * 2 +
                 static_cast<std::size_t>(direction)] += share * part;
            coordinate = (coordinate + (direction == 0 ? 1 : extent - 1)) % extent;
          }
        }
        here += (goal - start) * stride;
      }
    }
  const double lane = 0.5 / static_cast<double>(extents.size());
  return std::min(1.0, lane / *std::max_element(load.begin(), load.end()));
}

TEST_CASE("behind a switch every group has all of the link") {
  for (std::int32_t count = 2; count <= 8; ++count) {
    WiringFit whole;
    whole.steps = count - 1;
    CHECK(fit_of(wired(Wiring::kSwitch), 8, first(count)) == whole);
  }
}

TEST_CASE("of eight fully connected ends, k members reach k-1 of the 7 lanes of each") {
  for (std::int32_t count = 2; count <= 8; ++count) {
    const WiringFit fit = fit_of(wired(Wiring::kFullyConnected), 8, first(count));
    CHECK(fit.ring == doctest::Approx((count - 1) / 7.0));
    CHECK(fit.spread == doctest::Approx((count - 1) / 7.0));
    CHECK(fit.pair == doctest::Approx(1 / 7.0));
  }
}

TEST_CASE("a ring of ends gives rings all of the link and a pair half of it") {
  const WiringFit fit = fit_of(wired(Wiring::kRing), 8, first(8));
  CHECK(fit.ring == doctest::Approx(1));
  CHECK(fit.steps == 7);
  CHECK(fit.pair == doctest::Approx(0.5));
  // Mean distance 2 of 8 with itself counted: 7/8 of the bytes go 16/7 far over two halves.
  CHECK(fit.spread == doctest::Approx(7.0 / 16));
}

// Members 0, 2, 4, 6 of 8: every hop passes two links, all of them in use both ways.
TEST_CASE("a ring through ends that are no members passes them") {
  const WiringFit fit = fit_of(wired(Wiring::kRing), 8, Positions{0, 2, 4, 6});
  CHECK(fit.hops == 2);
  CHECK(fit.ring == doctest::Approx(1));
}

TEST_CASE("on a 4x4x4 torus a line has a third of the link, a plane two, all of it all") {
  const NetworkLink link = torus({4, 4, 4});
  Positions line, plane;
  for (std::int32_t i = 0; i < 4; ++i) line.push_back(5 + 16 * i);
  for (std::int32_t i = 0; i < 16; ++i) plane.push_back(32 + i);
  CHECK(fit_of(link, 64, line).ring == doctest::Approx(1 / 3.0));
  CHECK(fit_of(link, 64, line).steps == 3);
  CHECK(fit_of(link, 64, plane).ring == doctest::Approx(2 / 3.0));
  CHECK(fit_of(link, 64, plane).steps == 6);
  CHECK(fit_of(link, 64, first(64)).ring == doctest::Approx(1));
  CHECK(fit_of(link, 64, first(64)).steps == 9);
}

// Columns 0 and 2 of rows 0, 1 and 2 on a 4x8 torus, then one member elsewhere: along a row 3 steps
// become 1 over 6 links at most, along a column 2 over 2.
TEST_CASE("members that are a product of coordinates use rings of every dimension") {
  const NetworkLink link = torus({4, 8});
  const WiringFit product = fit_of(link, 32, Positions{0, 2, 8, 10, 16, 18});
  CHECK(product.ring == doctest::Approx(1));
  CHECK(product.steps == 3);
  CHECK(product.hops == 6);
  const WiringFit irregular = fit_of(link, 32, Positions{0, 2, 8, 10, 16, 19});
  CHECK(irregular.steps == 5);
  CHECK(irregular.ring < product.ring);
}

TEST_CASE("lines of a product carry what counting all ways gives") {
  const std::vector<Positions> columns = {{0, 1, 3}, {0, 2}, {1, 2, 3, 4}},
                               rows = {{0}, {0, 2}, {0, 1, 2}};
  for (const Positions& row : rows)
    for (const Positions& column : columns) {
      Positions members;
      for (const std::int32_t r : row)
        for (const std::int32_t c : column) members.push_back(5 * r + c);
      const WiringFit fit = fit_of(torus({3, 5}), 15, members);
      CHECK(fit.spread == doctest::Approx(spread_by_ways({3, 5}, members)));
    }
  const Positions irregular = {0, 1, 7, 8, 13};
  CHECK(fit_of(torus({3, 5}), 15, irregular).spread ==
        doctest::Approx(spread_by_ways({3, 5}, irregular)));
}

TEST_CASE("what all members of a torus send to all others is what counting all ways gives") {
  for (const std::vector<std::int64_t>& extents :
       {std::vector<std::int64_t>{4}, {5}, {6}, {4, 4}, {3, 5}, {2, 3, 4}}) {
    std::int64_t ends = 1;
    for (const std::int64_t extent : extents) ends *= extent;
    const Positions all = first(static_cast<std::int32_t>(ends));
    CHECK(fit_of(torus(extents), ends, all).spread ==
          doctest::Approx(spread_by_ways(extents, all)));
  }
}

// NCCL finds three rings through the eight GPUs of a DGX-1, each used both ways: 6 lanes of 6.
TEST_CASE("eight GPUs of a DGX-1 use all their lanes in rings, four of a quad four of six") {
  const LaneCounts lanes = lanes_of(8, hybrid_cube_mesh().cables);
  CHECK(num_cable_rings(lanes, first(8)) == 6);
  CHECK(num_cable_rings(lanes, first(4)) == 4);
  CHECK(num_cable_rings(lanes, Positions{0, 1, 2}) == 2);
  CHECK(num_cable_rings(lanes, Positions{0, 3}) == 2);
  CHECK(num_cable_rings(lanes, Positions{0, 1}) == 1);
  CHECK(num_cable_rings(lanes, Positions{0, 5}) == 0);
  CHECK(fit_of(hybrid_cube_mesh(), 8, first(8)).ring == doctest::Approx(1));
  CHECK(fit_of(hybrid_cube_mesh(), 8, first(4)).ring == doctest::Approx(4 / 6.0));
}

TEST_CASE("GPUs without a cable between them go through a third") {
  const WiringFit fit = fit_of(hybrid_cube_mesh(), 8, Positions{0, 5});
  CHECK(fit.pair_hops == 2);
  CHECK(fit.hops == 2);
  CHECK(fit.ring == doctest::Approx(1 / 6.0));  // by way of 1: one lane to it
}

TEST_CASE("members that no cable reaches are refused") {
  NetworkLink link = wired(Wiring::kCables);
  link.cables = {{0, 1, 1}, {2, 3, 1}};
  CHECK_THROWS_AS(fit_of(link, 4, first(4)), Error);
}

TEST_CASE("no wiring gives a group more than the link, and the more traffic the less") {
  const std::vector<NetworkLink> links = {wired(Wiring::kSwitch), wired(Wiring::kFullyConnected),
                                          wired(Wiring::kRing), torus({2, 4}), hybrid_cube_mesh()};
  for (const NetworkLink& link : links)
    for (std::uint32_t mask = 1; mask < 256; ++mask) {
      Positions positions;
      for (std::int32_t end = 0; end < 8; ++end)
        if ((mask >> end & 1U) != 0) positions.push_back(end);
      const WiringFit fit = fit_of(link, 8, positions);
      CAPTURE(to_string(link.wiring));
      CAPTURE(mask);
      for (const double share : {fit.ring, fit.spread, fit.pair}) {
        CHECK(share > 0);
        CHECK(share <= 1);
      }
      CHECK(fit.hops >= 1);
      CHECK(fit.steps <= static_cast<double>(positions.size()) - 1);
      CHECK(fit.steps >= (positions.size() > 1 ? 1 : 0));
    }
}

}  // namespace
}  // namespace sextant::wiring_test
