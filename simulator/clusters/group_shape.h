// Where the members of a group lie in the cluster, as far as closed forms of collectives ask: how
// many share a node, and what the links between them let a ring or a pair have.
#pragma once

#include "core/costs/cluster.h"
#include "simulator/clusters/wiring.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sextant {

// What a ring crosses on its way from group to group of nodes (Cluster::outer_tiers).
struct TierShape {
  std::int64_t groups = 1;  // of nodes that hold members
  std::int64_t fewest = 0;  // members in one of them
};

inline constexpr std::size_t kMaxOuterTiers = 4;

struct GroupShape {
  std::int64_t members = 0;
  std::int64_t nodes = 0;             // that hold members
  std::int64_t fewest = 0, most = 0;  // members in one of them
  WiringFit local;                    // of the worst of these nodes
  WiringFit remote;                   // nodes as ends, of the worst innermost group of nodes
  std::array<TierShape, kMaxOuterTiers> tiers = {};
  bool spans_nodes() const { return nodes > 1; }
};

// Shapes for one cluster. The order of members changes nothing. Thread-safe.
class GroupShapes {
 public:
  // Throws Error(kBadInput) for more than kMaxOuterTiers outer tiers.
  explicit GroupShapes(const Cluster& cluster);
  ~GroupShapes();

  // Members differ and are devices of the cluster.
  GroupShape of(std::span<const Rank> members) const;

  // Of ranks that may come twice: where two lists have equal numbers, the ranks at some positions
  // of the one have the shape of those at the same positions of the other.
  std::vector<std::int64_t> places_of(std::span<const Rank> ranks) const;

 private:
  class Fits;  // of one kind of link, remembered by positions

  GroupShape of_sorted(std::span<const Rank> members) const;
  void add_tiers(std::span<const Rank> members, GroupShape& shape) const;
  void add_fits(std::span<const Rank> members, GroupShape& shape) const;
  WiringFit local_fit(std::span<const Rank> members) const;
  WiringFit remote_fit(std::span<const Rank> members) const;

  std::int64_t devices_per_node_;
  std::vector<std::int64_t> devices_per_group_;  // of each outer tier
  std::unique_ptr<Fits> local_, remote_;
};

}  // namespace sextant
