// Fast completions of rings against the recurrence, step by step and picosecond for picosecond.

#include "simulator/costs/ring_recurrence.h"

#include "core/base/error.h"
#include "simulator/costs/models.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace sextant::ring_recurrence_test {
namespace {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t end) {
    return static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(end));
  }
  std::vector<Time> times(std::size_t count, std::int64_t end) {
    std::vector<Time> result;
    for (std::size_t i = 0; i < count; ++i) result.emplace_back(below(end));
    return result;
  }

 private:
  std::mt19937_64 engine_;
};

// Three members arriving at 0, 10 and 3, steps of 5. After one step a member waited for the one
// behind it: max(0, 3), max(10, 0), max(3, 10) + 5; after two for all.
TEST_CASE("after one step a member has waited for its neighbour, after n-1 for everybody") {
  const std::vector<Time> arrivals = {Time(0), Time(10), Time(3)};
  std::vector<Time> done(3);
  ring_completions(arrivals, Duration(5), 1, done);
  CHECK(done == std::vector<Time>{Time(8), Time(15), Time(15)});
  ring_completions(arrivals, Duration(5), 2, done);
  CHECK(done == std::vector<Time>{Time(20), Time(20), Time(20)});
  ring_completions(arrivals, Duration(5), 0, done);
  CHECK(done == arrivals);
}

TEST_CASE("a sliding maximum is the recurrence, for all small rings and numbers of steps") {
  Random random(1);
  for (std::size_t n = 0; n <= 12; ++n)
    for (std::int64_t steps = 0; steps <= 26; ++steps)
      for (const std::int64_t spread : {1, 3, 1'000'000'000}) {
        const std::vector<Time> arrivals = random.times(n, spread);
        std::vector<Time> fast(n), slow(n);
        const Duration step(random.below(1'000'000));
        ring_completions(arrivals, step, steps, fast);
        ring_completions_by_steps(arrivals, step, steps, slow);
        CHECK(fast == slow);
      }
}

TEST_CASE("tiles of many steps are the recurrence, whatever the hops") {
  Random random(2);
  for (const std::size_t n : {1, 2, 3, 7, 63, 64, 65, 100, 1023, 1024, 1025, 1500, 2500})
    for (const std::int64_t steps : {0, 1, 5, 63, 64, 65, 200}) {
      const std::vector<Time> arrivals = random.times(n, 1'000'000'000'000);
      const std::vector<Duration> hops = random.times(n, 2'000'000'000);
      std::vector<Time> fast(n), slow(n);
      ring_completions(arrivals, hops, steps, fast);
      ring_completions_by_steps(arrivals, hops, steps, slow);
      CAPTURE(n);
      CAPTURE(steps);
      CHECK(fast == slow);
    }
}

TEST_CASE("rings too long for exact picoseconds and negative hops are refused") {
  std::vector<Time> done(2);
  const std::vector<Time> arrivals = {Time(0), Time(std::int64_t{1} << 53)};
  const std::vector<Duration> hops = {Duration(1), Duration(1)}, back = {Duration(1), Duration(-1)};
  CHECK_THROWS_AS(ring_completions(arrivals, hops, 2, done), Error);
  CHECK_THROWS_AS(ring_completions(hops, back, 2, done), Error);
}

Cluster nodes_of_four(std::int64_t nodes) {
  Cluster cluster;
  cluster.nodes = nodes;
  cluster.devices_per_node = 4;
  cluster.intra_node.bandwidth.value = 100e9;
  cluster.intra_node.latency.value = 1e-6;
  cluster.inter_node.bandwidth.value = 10e9;
  cluster.inter_node.latency.value = 5e-6;
  return cluster;
}

struct Case {
  Communication communication;
  std::vector<Rank> members;
  CollectiveCost cost;
};

void fill(Case& one, Primitive primitive, std::int64_t members, std::int64_t bytes) {
  one.communication.primitive = primitive;
  for (std::int64_t i = 0; i < members; ++i) one.members.emplace_back(static_cast<int>(i));
  one.cost.communication = &one.communication;
  one.cost.members = one.members;
  one.cost.global_bytes = one.cost.largest_volume = Bytes(bytes);
}

// With equal hops every member depends on every other: the symmetric model loses nothing.
TEST_CASE("inside a node the recurrence is alpha-beta, whatever the arrivals") {
  Random random(3);
  const Cluster cluster = nodes_of_four(1);
  for (const Primitive primitive :
       {Primitive::kAllReduce, Primitive::kAllGather, Primitive::kReduceScatter})
    for (std::int64_t members = 1; members <= 4; ++members) {
      Case one;
      fill(one, primitive, members, 12'000'000);  // hops of whole picoseconds: no rounding
      const std::vector<Time> arrivals = random.times(one.members.size(), 1'000'000'000);
      std::vector<Time> ring(one.members.size()), symmetric(one.members.size());
      make_ring_recurrence(cluster)->complete(one.cost, arrivals, ring);
      make_alpha_beta(cluster)->complete(one.cost, arrivals, symmetric);
      CHECK(ring == symmetric);
    }
}

// 8 members on two nodes, S = 8 MB: hops of 1 us + 10 us inside and 5 us + 25 us between, four
// ports. The slow hops bound every step but the first few, and no member ends before the last came.
TEST_CASE("between nodes the slow hop sets the pace") {
  const Cluster cluster = nodes_of_four(2);
  Case one;
  fill(one, Primitive::kAllGather, 8, 8'000'000);
  const auto network = make_ring_recurrence(cluster);
  const Duration slow(30'000'000);
  CHECK(network->duration(one.cost) == 7 * slow);
  std::vector<Time> arrivals(8), done(8);
  arrivals[3] = Time(1'000'000'000);  // waits for nobody; its part goes round
  network->complete(one.cost, arrivals, done);
  for (const Time end : done) CHECK(end > arrivals[3]);
  CHECK(*std::max_element(done.begin(), done.end()) <= arrivals[3] + 7 * slow);
  CHECK(*std::min_element(done.begin(), done.end()) < arrivals[3] + 7 * slow);
}

TEST_CASE("the recurrence delays later arrivals no less and ends no member before the last came") {
  Random random(4);
  const Cluster cluster = nodes_of_four(4);
  const auto network = make_ring_recurrence(cluster);
  for (int round = 0; round < 200; ++round) {
    Case one;
    const Primitive primitives[] = {Primitive::kAllReduce,     Primitive::kAllGather,
                                    Primitive::kReduceScatter, Primitive::kBroadcast,
                                    Primitive::kShift,         Primitive::kTransfer,
                                    Primitive::kAllToAll};
    fill(one, primitives[random.below(7)], 1 + random.below(16), random.below(100'000'000));
    std::vector<Time> arrivals = random.times(one.members.size(), 1'000'000'000);
    std::vector<Time> done(arrivals.size()), later(arrivals.size());
    network->complete(one.cost, arrivals, done);
    const Time last = *std::max_element(arrivals.begin(), arrivals.end());
    for (const Time end : done) CHECK(end >= last);
    arrivals[static_cast<std::size_t>(random.below(static_cast<std::int64_t>(arrivals.size())))] +=
        Duration(123'456'789);
    network->complete(one.cost, arrivals, later);
    for (std::size_t i = 0; i < done.size(); ++i) CHECK(later[i] >= done[i]);
  }
}

}  // namespace
}  // namespace sextant::ring_recurrence_test
