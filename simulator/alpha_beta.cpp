// Collective time from alpha and bandwidth of the tier that a group uses. Durations do not depend
// on what else runs: contention between groups is not modelled, except that every device has its
// own share of the links.

#include "core/check.h"
#include "simulator/modelled_time.h"
#include "simulator/models.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace sextant {

namespace {

struct Tier {
  double alpha = 0;             // s per message
  double ring_bandwidth = 0;    // B/s per member and direction, rails of a node side by side
  double member_bandwidth = 0;  // B/s of one member alone
};

struct NodeCounts {
  std::int64_t count = 0;
  std::int64_t fewest = 0;  // members in one of them
};

class AlphaBeta : public NetworkModel {
 public:
  explicit AlphaBeta(const Cluster& cluster)
      : cluster_(cluster),
        intra_bandwidth_(rate_of(cluster.intra_node)),
        inter_bandwidth_(rate_of(cluster.inter_node)) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    SEXTANT_INVARIANT(arrivals.size() == done.size(), "{} arrivals, {} completions",
                      arrivals.size(), done.size());
    if (arrivals.empty()) return;
    const Time end = *std::max_element(arrivals.begin(), arrivals.end()) + duration(cost);
    std::fill(done.begin(), done.end(), end);
  }

  bool completes_together() const override { return true; }

  Duration duration(const CollectiveCost& cost) const override {
    if (cost.members.size() <= 1) return {};
    const Duration once = modelled_time(seconds(cost, tier_of(cost.members)),
                                        to_string(cost.communication->primitive));
    // Rounded by halves: an all_reduce is not a picosecond dearer than its two parts.
    return cost.communication->primitive == Primitive::kAllReduce ? 2 * once : once;
  }

 private:
  static double rate_of(const NetworkLink& link) {
    return link.bandwidth.value * link.efficiency.value;
  }

  Tier tier_of(std::span<const Rank> members) const {
    const NodeCounts nodes = count_nodes(members);
    if (nodes.count == 1)
      return {cluster_.intra_node.latency.value, intra_bandwidth_, intra_bandwidth_};
    const double rails = inter_bandwidth_ * static_cast<double>(nodes.fewest);
    const bool one_each = nodes.count == static_cast<std::int64_t>(members.size());
    const double ring = one_each ? rails : std::min(intra_bandwidth_, rails);
    return {cluster_.inter_node.latency.value, ring, inter_bandwidth_};
  }

  NodeCounts count_nodes(std::span<const Rank> members) const {
    if (std::is_sorted(members.begin(), members.end())) return count_runs(members);
    std::vector<std::int64_t> nodes;
    for (const Rank member : members) nodes.push_back(cluster_.node_of(member));
    std::sort(nodes.begin(), nodes.end());
    NodeCounts result{0, std::numeric_limits<std::int64_t>::max()};
    for (auto begin = nodes.begin(); begin != nodes.end();) {
      const auto end = std::upper_bound(begin, nodes.end(), *begin);
      ++result.count;
      result.fewest = std::min<std::int64_t>(result.fewest, end - begin);
      begin = end;
    }
    return result;
  }

  // Of sorted members; no division per member.
  NodeCounts count_runs(std::span<const Rank> members) const {
    NodeCounts result{0, std::numeric_limits<std::int64_t>::max()};
    for (std::size_t begin = 0; begin < members.size();) {
      const std::int64_t border =
          (cluster_.node_of(members[begin]) + 1) * cluster_.devices_per_node;
      std::size_t end = begin + 1;
      while (end < members.size() && members[end].value < border) ++end;
      ++result.count;
      result.fewest = std::min(result.fewest, static_cast<std::int64_t>(end - begin));
      begin = end;
    }
    return result;
  }

  // Of an all_reduce one of its halves.
  static double seconds(const CollectiveCost& cost, const Tier& tier) {
    const double n = static_cast<double>(cost.members.size());
    const double size = static_cast<double>(cost.global_bytes.value);
    const double volume = static_cast<double>(cost.largest_volume.value) / tier.member_bandwidth;
    const double step = tier.alpha + size / (n * tier.ring_bandwidth);
    switch (cost.communication->primitive) {
      case Primitive::kAllReduce:
      case Primitive::kAllGather:
      case Primitive::kReduceScatter:
        return (n - 1) * step;
      case Primitive::kBroadcast:
        return (n - 1) * tier.alpha + size / tier.ring_bandwidth;
      case Primitive::kShift:
        return tier.alpha + size / (n * tier.member_bandwidth);
      case Primitive::kAllToAll:
        return (n - 1) * tier.alpha + volume;
      case Primitive::kTransfer:
        return tier.alpha + volume;
    }
    throw Error(ErrorCode::kInternal, fmt::format("no cost of primitive {}",
                                                  static_cast<int>(cost.communication->primitive)));
  }

  Cluster cluster_;
  double intra_bandwidth_, inter_bandwidth_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_alpha_beta(const Cluster& cluster) {
  return std::make_unique<AlphaBeta>(cluster);
}

}  // namespace sextant
