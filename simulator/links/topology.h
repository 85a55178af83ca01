// The directed links of a cluster and the way from device to device: inside a node as it is wired;
// between nodes out of one device's share of the NICs, over what lies between the nodes, and in by
// the other's; groups of nodes share an up-link and a down-link per outer tier.
#pragma once

#include "core/costs/cluster.h"
#include "core/costs/cost_model.h"
#include "simulator/clusters/wires.h"

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sextant {

class Topology {
 public:
  explicit Topology(const Cluster& cluster);

  // In this order: nodes' inner links, NIC shares (out, in per device), links between nodes, outer
  // tiers (up, down per group). Made when first asked for.
  std::span<const SharedLink> links() const;

  // Appends the links on the way.
  void route(Rank from, Rank to, std::vector<std::int32_t>& links) const;
  // Without the NIC shares.
  void route_nodes(std::int64_t from, std::int64_t to, std::vector<std::int32_t>& links) const;

  std::int64_t node_of(Rank rank) const { return rank.value / devices_per_node_; }
  std::int64_t device_in_node(Rank rank) const { return rank.value % devices_per_node_; }
  const Wires& inside() const { return inside_; }
  std::int32_t first_inside(std::int64_t node) const {
    return static_cast<std::int32_t>(node) * inside_.count();
  }
  std::int32_t nic_out(Rank rank) const { return first_nic_ + 2 * rank.value; }
  std::int32_t nic_in(Rank rank) const { return nic_out(rank) + 1; }

 private:
  struct Tier {
    std::int64_t nodes_per_group = 1, groups = 1;
    std::int32_t first = 0;
    double bandwidth = 0;  // B/s per device
    std::string name;
  };

  std::int64_t nodes_, devices_per_node_;
  std::string nic_name_;
  double nic_bandwidth_ = 0;
  Wires inside_;
  std::optional<Wires> between_;  // unless nodes hang on one crossbar
  std::int32_t first_nic_ = 0, first_between_ = 0, count_ = 0;
  std::vector<Tier> tiers_;
  mutable std::once_flag made_;
  mutable std::vector<SharedLink> links_;
};

}  // namespace sextant
