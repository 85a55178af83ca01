// Flows over links: times worked out by hand, and the naive simulation with the oracle's rates.

#include "simulator/links/flow_network.h"

#include "core/base/error.h"
#include "experiments/micro/fat_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace sextant::flow_network_test {
namespace {

constexpr double kGiga = 1e9;

// 1 GB/s is 1 B per ns. Both at half rate until B has moved its 1,000 B at 2,000 ns; A has 2,000 B
// left and the link for itself.
TEST_CASE("the longer of two flows gets the link when the shorter is over") {
  const std::vector<double> capacities{kGiga};
  const std::vector<FluidFlow> flows{{Time(0), Duration(0), 3000, {{0, 1}}, kNoLimit},
                                     {Time(0), Duration(0), 1000, {{0, 1}}, kNoLimit}};
  CHECK(run_flows(capacities, flows) == std::vector<Time>{Time(4'000'000), Time(2'000'000)});
}

// Latency passes beside others: B's bytes begin at 1,500 ns, when A has moved 1,500 B.
// Then half rate each: B's 500 B end at 2,500 ns, A's other 1,000 B after them at 3,000 ns.
TEST_CASE("latency passes before the first byte and takes nothing of the link") {
  const std::vector<double> capacities{kGiga};
  const std::vector<FluidFlow> flows{{Time(0), Duration(0), 2500, {{0, 1}}, kNoLimit},
                                     {Time(500'000), Duration(1'000'000), 500, {{0, 1}}, kNoLimit}};
  CHECK(run_flows(capacities, flows) == std::vector<Time>{Time(3'000'000), Time(2'500'000)});
}

TEST_CASE("completions are rounded up to picoseconds") {
  const std::vector<double> capacities{3e12};  // 3 B per ps
  const std::vector<FluidFlow> flows{{Time(7), Duration(0), 10, {{0, 1}}, kNoLimit},
                                     {Time(100), Duration(0), 9, {{0, 1}}, kNoLimit},
                                     {Time(200), Duration(5), 0, {{0, 1}}, kNoLimit}};
  CHECK(run_flows(capacities, flows) == std::vector<Time>{Time(11), Time(103), Time(205)});
}

TEST_CASE("a thousand equal flows are over together, after a thousand times as long") {
  const std::vector<double> capacities{kGiga};
  const std::vector<FluidFlow> flows(1000, {Time(0), Duration(0), 100, {{0, 1}}, kNoLimit});
  for (const Time end : run_flows(capacities, flows)) CHECK(end == Time(100'000'000));
}

TEST_CASE("random flows on a fat tree end when the naive simulation ends them") {
  for (const unsigned seed : {1U, 2U, 3U}) {
    for (const bool together : {true, false}) {
      const FatTree tree(4);
      const std::vector<FluidFlow> flows = random_flows(tree, 150, seed, together);
      const std::vector<Time> ends = run_flows(tree.capacities(), flows);
      const std::vector<double> naive = run_flows_naively(tree.capacities(), flows);
      for (std::size_t f = 0; f < flows.size(); ++f) {
        const double end = static_cast<double>(ends[f].value);
        CHECK(std::abs(end - naive[f]) <= 1e-6 * naive[f] + 2);
      }
    }
  }
}

TEST_CASE("a flow that nothing limits is refused") {
  const std::vector<double> capacities{kGiga};
  const std::vector<FluidFlow> flows{{Time(0), Duration(0), 1, {}, kNoLimit}};
  CHECK_THROWS_WITH_AS(run_flows(capacities, flows), "flow 0 has bytes, but no link and no cap",
                       Error);
}

}  // namespace
}  // namespace sextant::flow_network_test
