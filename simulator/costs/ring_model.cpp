// Rings in group order, member by member: for studies of skew and of slow hops. Not symmetric in
// its members, so not for folded runs.

#include "core/base/check.h"
#include "simulator/costs/models.h"
#include "simulator/costs/ring_recurrence.h"

#include <algorithm>
#include <map>
#include <vector>

namespace sextant {

namespace {

class RingModel : public NetworkModel {
 public:
  explicit RingModel(const Cluster& cluster)
      : cluster_(cluster), others_(make_network_model(cluster)) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    const std::int64_t steps = steps_of(cost);
    if (steps == 0) return others_->complete(cost, arrivals, done);
    const std::vector<Duration> hops = hops_of(cost);
    const Duration first = hops.front();
    const bool equal =
        std::all_of(hops.begin(), hops.end(), [&](Duration hop) { return hop == first; });
    if (equal)
      ring_completions(arrivals, first, steps, done);
    else
      ring_completions(arrivals, hops, steps, done);
  }

  Duration duration(const CollectiveCost& cost) const override {
    if (steps_of(cost) == 0) return others_->duration(cost);
    const std::vector<Time> together(cost.members.size());
    std::vector<Time> done(cost.members.size());
    complete(cost, together, done);
    return *std::max_element(done.begin(), done.end());
  }

 private:
  // Zero: no ring, or of one member.
  static std::int64_t steps_of(const CollectiveCost& cost) {
    const auto peers = static_cast<std::int64_t>(cost.members.size()) - 1;
    switch (cost.communication->primitive) {
      case Primitive::kAllReduce:
        return 2 * peers;
      case Primitive::kAllGather:
      case Primitive::kReduceScatter:
        return peers;
      case Primitive::kAllToAll:
      case Primitive::kBroadcast:
      case Primitive::kShift:
      case Primitive::kTransfer:
        return 0;
    }
    return 0;
  }

  // One part from the member behind: as many rings run side by side as the poorest node has
  // members, so a hop between nodes has that many ports.
  std::vector<Duration> hops_of(const CollectiveCost& cost) const {
    std::map<std::int64_t, std::int64_t> in_node;
    for (const Rank member : cost.members) ++in_node[cluster_.node_of(member)];
    std::int64_t rails = static_cast<std::int64_t>(cost.members.size());
    for (const auto& [node, count] : in_node) rails = std::min(rails, count);
    const double part =
        static_cast<double>(cost.global_bytes.value) / static_cast<double>(cost.members.size());
    const auto time = [&](const NetworkLink& link, double ports) {
      return duration_from_seconds(link.latency.value +
                                   part / (link.bandwidth.value * link.efficiency.value * ports));
    };
    const Duration near = time(cluster_.intra_node, 1);
    const Duration far =
        in_node.size() > 1 ? time(cluster_.inter_node, static_cast<double>(rails)) : Duration(0);
    std::vector<Duration> hops;
    Rank behind = cost.members.back();
    for (const Rank member : cost.members) {
      hops.push_back(cluster_.node_of(behind) == cluster_.node_of(member) ? near : far);
      behind = member;
    }
    return hops;
  }

  Cluster cluster_;
  std::unique_ptr<NetworkModel> others_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_ring_recurrence(const Cluster& cluster) {
  return std::make_unique<RingModel>(cluster);
}

}  // namespace sextant
