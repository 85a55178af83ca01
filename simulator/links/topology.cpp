// Links are numbered by arithmetic; their names are made when somebody asks.

#include "simulator/links/topology.h"

#include "core/base/check.h"

#include <algorithm>

namespace sextant {

Topology::Topology(const Cluster& cluster)
    : nodes_(cluster.nodes),
      devices_per_node_(cluster.devices_per_node),
      nic_name_(cluster.inter_node.name),
      inside_(cluster.intra_node, cluster.devices_per_node, usable_bandwidth(cluster.intra_node)) {
  count_ = static_cast<std::int32_t>(nodes_) * inside_.count();
  if (nodes_ == 1) return;
  first_nic_ = count_;
  nic_bandwidth_ = usable_bandwidth(cluster.inter_node);
  count_ += static_cast<std::int32_t>(2 * cluster.num_devices());
  if (cluster.inter_node.wiring != Wiring::kSwitch) {
    first_between_ = count_;
    between_.emplace(cluster.inter_node, nodes_,
                     nic_bandwidth_ * static_cast<double>(devices_per_node_));
    count_ += between_->count();
  }
  for (const OuterTier& outer : cluster.outer_tiers) {
    const std::int64_t groups = (nodes_ + outer.nodes_per_group - 1) / outer.nodes_per_group;
    tiers_.push_back(
        {outer.nodes_per_group, groups, count_, usable_bandwidth(outer.link), outer.link.name});
    count_ += static_cast<std::int32_t>(2 * groups);
  }
}

std::span<const SharedLink> Topology::links() const {
  std::call_once(made_, [this] {
    links_.reserve(static_cast<std::size_t>(count_));
    for (std::int64_t node = 0; node < nodes_; ++node)
      inside_.append_links(fmt::format("node{}.", node), "device", links_);
    if (nodes_ == 1) return;
    for (std::int64_t rank = 0; rank < nodes_ * devices_per_node_; ++rank)
      for (const char* way : {"out", "in"})
        links_.push_back({fmt::format("node{}.device{}.{}.{}", rank / devices_per_node_,
                                      rank % devices_per_node_, nic_name_, way),
                          nic_bandwidth_});
    if (between_) between_->append_links("", "node", links_);
    for (const Tier& tier : tiers_)
      for (std::int64_t group = 0; group < tier.groups; ++group) {
        const std::int64_t first = group * tier.nodes_per_group;
        const std::int64_t nodes = std::min(tier.nodes_per_group, nodes_ - first);
        for (const char* way : {"up", "down"})
          links_.push_back({fmt::format("{}{}.{}", tier.name, group, way),
                            tier.bandwidth * static_cast<double>(nodes * devices_per_node_)});
      }
  });
  return links_;
}

void Topology::route(Rank from, Rank to, std::vector<std::int32_t>& links) const {
  const std::int64_t first = node_of(from), last = node_of(to);
  if (first == last) {
    inside_.route(device_in_node(from), device_in_node(to), first_inside(first), links);
    return;
  }
  links.push_back(nic_out(from));
  route_nodes(first, last, links);
  links.push_back(nic_in(to));
}

void Topology::route_nodes(std::int64_t from, std::int64_t to,
                           std::vector<std::int32_t>& links) const {
  if (between_) between_->route(from, to, first_between_, links);
  for (const Tier& tier : tiers_) {
    const std::int64_t up = from / tier.nodes_per_group, down = to / tier.nodes_per_group;
    if (up == down) continue;
    links.push_back(tier.first + static_cast<std::int32_t>(2 * up));
    links.push_back(tier.first + static_cast<std::int32_t>(2 * down + 1));
  }
}

}  // namespace sextant
