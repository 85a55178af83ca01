// Random flows on a k-ary fat tree, and what becomes of them if all rates are worked out anew at
// every event: the peers' workload and its oracle.
#pragma once

#include "simulator/links/flow_network.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace sextant {

// k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts (Al-Fares et al.,
// 2008). All links have 10 GB/s in each direction.
class FatTree {
 public:
  explicit FatTree(int k) : half_(k / 2), hosts_(k * k * k / 4) {}

  int hosts() const { return hosts_; }
  std::vector<double> capacities() const {
    return std::vector<double>(static_cast<std::size_t>(6 * hosts_), 10e9);
  }
  // Up and down between host and edge, edge and aggregation, aggregation and core; `way` picks
  // among the equal paths.
  std::vector<FlowLoad> route(int from, int to, unsigned way) const {
    const int aggregation = static_cast<int>(way % static_cast<unsigned>(half_));
    const int core = static_cast<int>(way / 64 % static_cast<unsigned>(half_));
    std::vector<FlowLoad> loads{{link(0, from), 1}, {link(1, to), 1}};
    const int edge_from = from / half_, edge_to = to / half_;
    if (edge_from == edge_to) return loads;
    loads.push_back({link(2, edge_from * half_ + aggregation), 1});
    loads.push_back({link(3, edge_to * half_ + aggregation), 1});
    const int pod_from = edge_from / half_, pod_to = edge_to / half_;
    if (pod_from == pod_to) return loads;
    loads.push_back({link(4, (pod_from * half_ + aggregation) * half_ + core), 1});
    loads.push_back({link(5, (pod_to * half_ + aggregation) * half_ + core), 1});
    return loads;
  }

 private:
  int link(int layer, int index) const { return layer * hosts_ + index; }

  int half_, hosts_;
};

// Of 1 to 100 MB between different hosts, all beginning together or within 10 ms.
inline std::vector<FluidFlow> random_flows(const FatTree& tree, int count, unsigned seed,
                                           bool together) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<FluidFlow> flows;
  for (int f = 0; f < count; ++f) {
    FluidFlow flow;
    const int from = below(tree.hosts());
    const int to = (from + 1 + below(tree.hosts() - 1)) % tree.hosts();
    flow.start = together ? Time(0) : Time(std::int64_t{below(10'000)} * 1'000'000);
    flow.latency = Duration(1'000'000);
    flow.bytes = 1e6 * (1 + below(100));
    flow.loads = tree.route(from, to, random());
    flows.push_back(flow);
  }
  return flows;
}

// In picoseconds, without rounding.
inline std::vector<double> run_flows_naively(std::span<const double> capacities,
                                             std::span<const FluidFlow> flows) {
  std::vector<double> ends(flows.size(), -1), left;
  for (const FluidFlow& flow : flows) left.push_back(flow.bytes);
  const auto begin_of = [&](std::size_t f) {
    return static_cast<double>((flows[f].start + flows[f].latency).value);
  };
  double now = 0;
  for (;;) {
    std::vector<std::size_t> active;
    std::vector<CappedFlow> sharing;
    double next = kNoLimit;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (ends[f] >= 0) continue;
      if (begin_of(f) > now) {
        next = std::min(next, begin_of(f));
        continue;
      }
      active.push_back(f);
      sharing.push_back({flows[f].loads, flows[f].cap});
    }
    const std::vector<double> rates = fill_progressively(capacities, sharing);
    for (std::size_t i = 0; i < active.size(); ++i)
      next = std::min(next, now + left[active[i]] / rates[i] * 1e12);
    if (next == kNoLimit) return ends;
    for (std::size_t i = 0; i < active.size(); ++i) {
      double& bytes = left[active[i]];
      bytes -= rates[i] * (next - now) * 1e-12;
      if (bytes <= 1e-9 * flows[active[i]].bytes) ends[active[i]] = next;
    }
    now = next;
  }
}

}  // namespace sextant
