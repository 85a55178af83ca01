// Max-min fair rates: the certificate of optimality, the oracle, and numbers worked out by hand.

#include "simulator/links/max_min.h"

#include "core/base/error.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace sextant::max_min_test {
namespace {

constexpr double kTolerance = 1e-9;

struct Instance {
  std::vector<double> capacities;
  std::vector<CappedFlow> flows;
};

// Every load fits, and each flow is at its cap or on a full link where nobody is faster.
bool is_max_min(const Instance& instance, const std::vector<double>& rates) {
  std::vector<double> used(instance.capacities.size()), fastest(instance.capacities.size());
  for (std::size_t f = 0; f < rates.size(); ++f)
    for (const FlowLoad& on : instance.flows[f].loads) {
      if (on.load == 0) continue;
      const auto link = static_cast<std::size_t>(on.link);
      used[link] += on.load * rates[f];
      fastest[link] = std::max(fastest[link], rates[f]);
    }
  for (std::size_t link = 0; link < used.size(); ++link)
    if (used[link] > instance.capacities[link] * (1 + kTolerance)) return false;
  for (std::size_t f = 0; f < rates.size(); ++f) {
    const CappedFlow& flow = instance.flows[f];
    if (rates[f] > flow.cap) return false;
    const bool is_held = rates[f] == flow.cap ||
                         std::any_of(flow.loads.begin(), flow.loads.end(), [&](const FlowLoad& on) {
                           const auto link = static_cast<std::size_t>(on.link);
                           return on.load > 0 &&
                                  used[link] >= instance.capacities[link] * (1 - kTolerance) &&
                                  rates[f] >= fastest[link] * (1 - kTolerance);
                         });
    if (!is_held) return false;
  }
  return true;
}

bool are_close(double a, double b) { return a == b || std::abs(a - b) <= kTolerance * b; }

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  // Kinds: equal values, small integers, any, huge ratios.
  double value(int kind) {
    if (kind == 0) return 1;
    if (kind == 1) return 1 + below(3);
    const double any = 0.1 + static_cast<double>(engine_() % 1000) / 100;
    return kind == 2 ? any : any * std::pow(10.0, below(9) - 4);
  }

 private:
  std::mt19937 engine_;
};

CappedFlow random_flow(Random& random, int kind, int num_links) {
  CappedFlow flow;
  for (int link = 0; link < num_links; ++link)
    if (random.below(2) == 0)
      flow.loads.push_back({link, random.below(12) == 0 ? 0.0 : random.value(kind)});
  if (flow.loads.empty() || random.below(3) == 0) flow.cap = random.value(kind) / 2;
  if (std::all_of(flow.loads.begin(), flow.loads.end(),
                  [](const FlowLoad& on) { return on.load == 0; }))
    flow.cap = random.value(kind);
  return flow;
}

Instance random_instance(unsigned seed) {
  Random random(seed);
  const int kind = random.below(4);
  Instance instance;
  const int num_links = 1 + random.below(seed % 50 == 0 ? 30 : 6);
  for (int link = 0; link < num_links; ++link) instance.capacities.push_back(random.value(kind));
  const int num_flows = 1 + random.below(seed % 50 == 0 ? 60 : 8);
  for (int f = 0; f < num_flows; ++f)
    instance.flows.push_back(random_flow(random, kind, num_links));
  return instance;
}

std::vector<double> solve(const Instance& instance) {
  MaxMin solver(instance.capacities);
  std::vector<std::int32_t> classes;
  for (const CappedFlow& flow : instance.flows) classes.push_back(solver.add(flow.loads, flow.cap));
  solver.solve();
  std::vector<double> rates;
  for (const std::int32_t c : classes) rates.push_back(solver.rate(c));
  return rates;
}

// Links of 10 and 4: A on both, B on the first, C on the second with cap 1. C takes 1, A the other
// 3 of the second link, B 7.
TEST_CASE("two links shared by three flows give the rates worked out by hand") {
  const Instance instance{{10, 4},
                          {{{{0, 1}, {1, 1}}, kNoLimit}, {{{0, 1}}, kNoLimit}, {{{1, 1}}, 1.0}}};
  CHECK(fill_progressively(instance.capacities, instance.flows) == std::vector<double>{3, 7, 1});
  CHECK(solve(instance) == std::vector<double>{3, 7, 1});
}

// A rate of 1 takes 3 of the link from A and 1 from B: 3 r + r = 8.
TEST_CASE("a flow that loads a link more gets the same rate, not the same share") {
  const Instance instance{{8}, {{{{0, 3}}, kNoLimit}, {{{0, 1}}, kNoLimit}}};
  CHECK(fill_progressively(instance.capacities, instance.flows) == std::vector<double>{2, 2});
  CHECK(solve(instance) == std::vector<double>{2, 2});
}

TEST_CASE("rates are max-min fair and the oracle's on ten thousand random instances") {
  std::int64_t held_by_links = 0;
  for (unsigned seed = 0; seed < 10000; ++seed) {
    CAPTURE(seed);
    const Instance instance = random_instance(seed);
    const std::vector<double> expected = fill_progressively(instance.capacities, instance.flows);
    const std::vector<double> rates = solve(instance);
    REQUIRE(is_max_min(instance, expected));
    REQUIRE(is_max_min(instance, rates));
    for (std::size_t f = 0; f < rates.size(); ++f) {
      REQUIRE(are_close(rates[f], expected[f]));
      held_by_links += rates[f] < instance.flows[f].cap ? 1 : 0;
    }
  }
  CHECK(held_by_links > 10000);
}

TEST_CASE("rates stay the oracle's while flows come and go, and changes are all reported") {
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const int kind = random.below(4);
    const int num_links = 2 + random.below(12);
    Instance instance;
    for (int link = 0; link < num_links; ++link) instance.capacities.push_back(random.value(kind));
    MaxMin solver(instance.capacities);
    std::vector<std::int32_t> classes;
    std::map<std::int32_t, double> known;
    for (int turn = 0; turn < 60; ++turn) {
      for (int change = random.below(3); change >= 0; --change) {
        if (!classes.empty() && random.below(5) < 2) {
          const auto gone =
              static_cast<std::size_t>(random.below(static_cast<int>(classes.size())));
          solver.remove(classes[gone]);
          classes.erase(classes.begin() + static_cast<std::ptrdiff_t>(gone));
          instance.flows.erase(instance.flows.begin() + static_cast<std::ptrdiff_t>(gone));
        } else {
          const bool again = !instance.flows.empty() && random.below(4) == 0;
          instance.flows.push_back(again ? instance.flows.front()
                                         : random_flow(random, kind, num_links));
          classes.push_back(solver.add(instance.flows.back().loads, instance.flows.back().cap));
        }
      }
      solver.solve();
      for (const std::int32_t c : solver.changed()) known[c] = solver.rate(c);
      const std::vector<double> expected = fill_progressively(instance.capacities, instance.flows);
      for (std::size_t f = 0; f < expected.size(); ++f) {
        REQUIRE(are_close(solver.rate(classes[f]), expected[f]));
        REQUIRE(known.at(classes[f]) == solver.rate(classes[f]));
      }
    }
  }
}

TEST_CASE("flows with equal loads are one class") {
  const std::vector<double> capacities{6};
  MaxMin solver(capacities);
  const std::vector<FlowLoad> loads{{0, 1}};
  const std::int32_t first = solver.add(loads);
  CHECK(solver.add(loads) == first);
  CHECK(solver.add(loads, 1.0) != first);
  solver.solve();
  CHECK(solver.rate(first) == 2.5);
  solver.remove(first);
  solver.solve();
  CHECK(solver.rate(first) == 5);
}

// 1,000 pairs of links that nothing connects: a change in one pair works out its own levels only.
TEST_CASE("a change touches only the links that it reaches") {
  const std::vector<double> capacities(2000, 10.0);
  MaxMin solver(capacities);
  std::int32_t last = 0;
  for (int pair = 0; pair < 1000; ++pair) {
    const std::vector<FlowLoad> one{{2 * pair, 1}}, both{{2 * pair, 1}, {2 * pair + 1, 1}};
    solver.add(both);
    last = solver.add(one);
  }
  solver.solve();
  CHECK(solver.levels_computed() >= 1000);
  solver.remove(last);
  solver.solve();
  CHECK(solver.levels_computed() <= 6);
  CHECK(solver.changed().size() == 1);
}

TEST_CASE("flows and links without meaning are refused") {
  const std::vector<double> none{1, 0}, two{1, 1};
  CHECK_THROWS_WITH_AS(MaxMin{none}, "link 1 has a capacity of 0: above 0", Error);
  MaxMin solver(two);
  const std::vector<FlowLoad> outside{{2, 1}}, negative{{0, -1}}, twice{{0, 1}, {0, 2}};
  CHECK_THROWS_WITH_AS(solver.add(outside), "a flow over link 2 of 2", Error);
  CHECK_THROWS_WITH_AS(solver.add(negative), "a load of -1 on link 0: 0 or more", Error);
  CHECK_THROWS_WITH_AS(solver.add(twice), "a flow names link 0 twice", Error);
  CHECK_THROWS_WITH_AS(solver.add({}, 0), "a flow with a cap of 0: above 0", Error);
}

}  // namespace
}  // namespace sextant::max_min_test
