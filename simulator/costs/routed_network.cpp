// Bytes by pairs of members for all_to_all, by the mean of the members for all else.

#include "core/base/check.h"
#include "simulator/costs/routed_graph.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace sextant {

namespace {

Communication transfer() {
  Communication communication;
  communication.primitive = Primitive::kTransfer;
  return communication;
}

// What each member of an all_to_all sends to each other.
struct PairVolumes {
  std::vector<double> bytes;  // by sender, then receiver
  double all = 0, largest = 0;
};

class RoutedNetwork final : public NetworkModel {
 public:
  RoutedNetwork(const RoutedGraph& routed, std::unique_ptr<NetworkModel> base)
      : routed_(routed), base_(std::move(base)), transfer_(transfer()) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    base_->complete(routed_cost(cost), arrivals, done);
  }
  Duration duration(const CollectiveCost& cost) const override {
    return base_->duration(routed_cost(cost));
  }
  bool completes_together() const override { return base_->completes_together(); }
  std::span<const SharedLink> links() const override { return base_->links(); }

  void demand(const CollectiveCost& cost, NetworkDemand& out) const override {
    const CollectiveCost routed = routed_cost(cost);
    base_->demand(routed, out);
    if (out.loads.empty() || !is_uneven(cost)) return;
    load_pairs(cost, out);
  }

 private:
  bool is_routed(const CollectiveCost& cost) const {
    return routed_.is_routed(cost.communication->from) && cost.members.size() > 1;
  }
  bool is_uneven(const CollectiveCost& cost) const {
    return is_routed(cost) && cost.communication->primitive == Primitive::kAllToAll;
  }

  CollectiveCost routed_cost(const CollectiveCost& cost) const {
    if (!is_routed(cost) || cost.global_bytes == Bytes(0)) return cost;
    CollectiveCost routed = cost;
    if (is_uneven(cost)) {
      const PairVolumes volumes = volumes_of(cost);
      routed.global_bytes = Bytes(std::llround(volumes.all));
      routed.largest_volume = Bytes(std::llround(volumes.largest));
      return routed;
    }
    const double share = mean_filled(cost);
    const auto scaled = [&](Bytes bytes) {
      return Bytes(std::llround(static_cast<double>(bytes.value) * share));
    };
    routed.global_bytes = scaled(cost.global_bytes);
    routed.largest_volume = scaled(cost.largest_volume);
    return routed;
  }

  Interval experts_of(LayoutId layout, Rank rank) const {
    return shard_of(routed_.graph, layout, rank).dims[0];
  }

  // Members of a transfer are on two placements: all experts stand for them.
  double mean_filled(const CollectiveCost& cost) const {
    if (cost.communication->primitive == Primitive::kTransfer)
      return routed_.load.filled_between(0, routed_.load.sizes.experts);
    double sum = 0;
    for (const Rank member : cost.members) {
      const Interval experts = experts_of(cost.communication->from, member);
      sum += routed_.load.filled_between(experts.offset, experts.end());
    }
    return sum / static_cast<double>(cost.members.size());
  }

  PairVolumes volumes_of(const CollectiveCost& cost) const {
    const std::size_t n = cost.members.size();
    std::vector<Interval> from, to;
    for (const Rank member : cost.members) {
      from.push_back(experts_of(cost.communication->from, member));
      to.push_back(experts_of(cost.communication->to, member));
    }
    PairVolumes volumes;
    volumes.bytes.resize(n * n);
    double common_experts = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        if (i == j) continue;
        const std::int64_t first = std::max(from[i].offset, to[j].offset);
        const std::int64_t last = std::min(from[i].end(), to[j].end());
        if (last <= first) continue;
        const auto common = static_cast<double>(last - first);
        common_experts += common;
        volumes.bytes[i * n + j] = common * routed_.load.filled_between(first, last);
      }
    if (common_experts == 0) return volumes;
    const double per_expert = static_cast<double>(cost.global_bytes.value) / common_experts;
    std::vector<double> sent(n), received(n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const double bytes = volumes.bytes[i * n + j] *= per_expert;
        sent[i] += bytes;
        received[j] += bytes;
        volumes.all += bytes;
      }
    for (std::size_t i = 0; i < n; ++i)
      volumes.largest = std::max({volumes.largest, sent[i], received[i]});
    return volumes;
  }

  // As transfers between all pairs at once; no link more than it carries in the time alone.
  void load_pairs(const CollectiveCost& cost, NetworkDemand& out) const {
    const PairVolumes volumes = volumes_of(cost);
    const std::size_t n = cost.members.size();
    std::vector<LinkLoad> loads;
    NetworkDemand one;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        const Bytes bytes(std::llround(volumes.bytes[i * n + j]));
        if (bytes == Bytes(0)) continue;
        const Rank pair[] = {cost.members[i], cost.members[j]};
        base_->demand({&transfer_, pair, bytes, bytes}, one);
        loads.insert(loads.end(), one.loads.begin(), one.loads.end());
      }
    std::stable_sort(loads.begin(), loads.end(),
                     [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
    const double seconds = to_seconds(base_->duration(routed_cost(cost)) - out.latency);
    out.loads.clear();
    for (const LinkLoad& load : loads) {
      if (out.loads.empty() || out.loads.back().link != load.link)
        out.loads.push_back({load.link, 0});
      out.loads.back().bytes += load.bytes;
    }
    for (LinkLoad& load : out.loads)
      load.bytes =
          std::min(load.bytes,
                   base_->links()[static_cast<std::size_t>(load.link)].bytes_per_second * seconds);
  }

  const RoutedGraph& routed_;
  std::unique_ptr<NetworkModel> base_;
  Communication transfer_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_routed_network(const RoutedGraph& routed,
                                                  std::unique_ptr<NetworkModel> base) {
  return std::make_unique<RoutedNetwork>(routed, std::move(base));
}

}  // namespace sextant
