// Loads are collected link by link and merged at the end: a collective names few links.

#include "simulator/links/flow_model.h"

#include "core/base/check.h"
#include "simulator/links/topology.h"

#include <algorithm>
#include <map>
#include <vector>

namespace sextant {

namespace {

// Members of one node.
struct NodeMembers {
  std::int64_t node = 0;
  std::vector<Rank> ranks;  // in group order
};

std::vector<NodeMembers> by_node(const Topology& topology, std::span<const Rank> members) {
  std::vector<NodeMembers> nodes;
  std::map<std::int64_t, std::size_t> place;
  for (const Rank member : members) {
    const std::int64_t node = topology.node_of(member);
    const auto [known, is_new] = place.try_emplace(node, nodes.size());
    if (is_new) nodes.push_back({node, {}});
    nodes[known->second].ranks.push_back(member);
  }
  return nodes;
}

class FlowLoads {
 public:
  FlowLoads(const Topology& topology, std::vector<LinkLoad>& loads)
      : topology_(topology), loads_(loads) {}

  void add_route(Rank from, Rank to, double bytes) {
    links_.clear();
    topology_.route(from, to, links_);
    add_links(bytes);
  }

  // Every member sends `bytes` to the next, in a ring of several side by side. An open ring is a
  // chain: the last sends nothing.
  void add_ring(std::span<const Rank> members, double bytes, bool is_open) {
    const std::vector<NodeMembers> nodes = by_node(topology_, members);
    if (nodes.size() == 1) {
      add_inside(nodes.front(), bytes, is_open);
      return;
    }
    std::size_t rings = nodes.front().ranks.size();
    for (const NodeMembers& node : nodes) rings = std::min(rings, node.ranks.size());
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const auto count = static_cast<double>(nodes[n].ranks.size());
      // Of each ring all hops but one stay in the node.
      if (count > 1) add_inside(nodes[n], bytes * (count - 1) / count, false);
      if (is_open && n + 1 == nodes.size()) break;
      add_border(nodes[n], nodes[(n + 1) % nodes.size()], rings, bytes);
    }
  }

  void add_pairs(std::span<const Rank> members, double bytes_per_pair) {
    const std::vector<NodeMembers> nodes = by_node(topology_, members);
    for (const NodeMembers& node : nodes) {
      const auto others = static_cast<double>(members.size() - node.ranks.size());
      add_pairs_inside(node, bytes_per_pair);
      if (others == 0) continue;
      for (const Rank rank : node.ranks) {
        add(topology_.nic_out(rank), others * bytes_per_pair);
        add(topology_.nic_in(rank), others * bytes_per_pair);
      }
      for (const NodeMembers& other : nodes) {
        links_.clear();
        topology_.route_nodes(node.node, other.node, links_);
        add_links(static_cast<double>(node.ranks.size() * other.ranks.size()) * bytes_per_pair);
      }
    }
  }

  // Sorts, adds up what one link carries and keeps it within what it can in `seconds`.
  void finish(double seconds) {
    std::sort(loads_.begin(), loads_.end(),
              [](const LinkLoad& a, const LinkLoad& b) { return a.link < b.link; });
    std::size_t kept = 0;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (kept > 0 && loads_[kept - 1].link == loads_[i].link)
        loads_[kept - 1].bytes += loads_[i].bytes;
      else
        loads_[kept++] = loads_[i];
    }
    loads_.resize(kept);
    const std::span<const SharedLink> links = topology_.links();
    for (LinkLoad& load : loads_)
      load.bytes = std::min(load.bytes,
                            links[static_cast<std::size_t>(load.link)].bytes_per_second * seconds);
  }

 private:
  void add(std::int32_t link, double bytes) { loads_.push_back({link, bytes}); }
  void add_links(double bytes) {
    for (const std::int32_t link : links_) add(link, bytes);
  }

  void add_inside(const NodeMembers& node, double bytes, bool is_open) {
    const std::size_t count = node.ranks.size();
    if (topology_.inside().wiring() == Wiring::kFullyConnected && count > 2) {
      add_pairs_inside(node, bytes / static_cast<double>(count - 1));
      return;
    }
    const bool both_ways = topology_.inside().wiring() != Wiring::kSwitch && !is_open && count > 2;
    for (std::size_t i = 0; i < count; ++i) {
      if (is_open && i + 1 == count) break;
      const Rank here = node.ranks[i], next = node.ranks[(i + 1) % count];
      add_route(here, next, both_ways ? bytes / 2 : bytes);
      if (both_ways) add_route(next, here, bytes / 2);
    }
  }

  void add_pairs_inside(const NodeMembers& node, double bytes_per_pair) {
    if (topology_.inside().wiring() == Wiring::kSwitch) {
      const double bytes = bytes_per_pair * static_cast<double>(node.ranks.size() - 1);
      if (node.ranks.size() < 2) return;
      for (const Rank rank : node.ranks) {
        const auto port = static_cast<std::int32_t>(2 * topology_.device_in_node(rank));
        add(topology_.first_inside(node.node) + port, bytes);
        add(topology_.first_inside(node.node) + port + 1, bytes);
      }
      return;
    }
    for (const Rank from : node.ranks)
      for (const Rank to : node.ranks)
        if (from != to) add_route(from, to, bytes_per_pair);
  }

  void add_border(const NodeMembers& from, const NodeMembers& to, std::size_t rings, double bytes) {
    const double per_ring = bytes / static_cast<double>(rings);
    for (std::size_t ring = 0; ring < rings; ++ring) {
      add(topology_.nic_out(from.ranks[ring]), per_ring);
      add(topology_.nic_in(to.ranks[ring]), per_ring);
    }
    links_.clear();
    topology_.route_nodes(from.node, to.node, links_);
    add_links(bytes);
  }

  const Topology& topology_;
  std::vector<LinkLoad>& loads_;
  std::vector<std::int32_t> links_;
};

class FlowNetwork final : public NetworkModel {
 public:
  FlowNetwork(const Cluster& cluster, std::unique_ptr<NetworkModel> base)
      : topology_(cluster), base_(std::move(base)) {}

  void complete(const CollectiveCost& cost, std::span<const Time> arrivals,
                std::span<Time> done) const override {
    base_->complete(cost, arrivals, done);
  }
  Duration duration(const CollectiveCost& cost) const override { return base_->duration(cost); }
  bool completes_together() const override { return base_->completes_together(); }
  std::span<const SharedLink> links() const override { return topology_.links(); }

  void demand(const CollectiveCost& cost, NetworkDemand& out) const override {
    out.loads.clear();
    const Duration all = base_->duration(cost);
    CollectiveCost empty = cost;
    empty.global_bytes = empty.largest_volume = Bytes(0);
    out.latency = std::min(all, base_->duration(empty));
    if (cost.members.size() < 2 || out.latency == all || cost.global_bytes == Bytes(0)) return;
    FlowLoads loads(topology_, out.loads);
    add_loads(cost, loads);
    loads.finish(to_seconds(all - out.latency));
  }

 private:
  static void add_loads(const CollectiveCost& cost, FlowLoads& loads) {
    const auto n = static_cast<double>(cost.members.size());
    const auto size = static_cast<double>(cost.global_bytes.value);
    switch (cost.communication->primitive) {
      case Primitive::kAllReduce:
        return loads.add_ring(cost.members, 2 * (n - 1) / n * size, false);
      case Primitive::kAllGather:
      case Primitive::kReduceScatter:
        return loads.add_ring(cost.members, (n - 1) / n * size, false);
      case Primitive::kBroadcast:
        return loads.add_ring(cost.members, size, true);
      case Primitive::kShift:
        for (std::size_t i = 0; i < cost.members.size(); ++i)
          loads.add_route(cost.members[i], cost.members[(i + 1) % cost.members.size()], size / n);
        return;
      case Primitive::kAllToAll:
        return loads.add_pairs(cost.members, size / (n * (n - 1)));
      case Primitive::kTransfer:
        for (std::size_t from = 0; from < cost.members.size(); ++from)
          for (std::size_t to = from + 1; to < cost.members.size(); ++to)
            loads.add_route(cost.members[from], cost.members[to], 2 * size / (n * (n - 1)));
        return;
    }
  }

  Topology topology_;
  std::unique_ptr<NetworkModel> base_;
};

}  // namespace

std::unique_ptr<NetworkModel> make_flow_network(const Cluster& cluster,
                                                std::unique_ptr<NetworkModel> base) {
  return std::make_unique<FlowNetwork>(cluster, std::move(base));
}

}  // namespace sextant
