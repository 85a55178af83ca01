// Sizes of collectives and transfers that stages of a pipeline have in common: what moves between
// the devices of placements depends on their extents, not on which devices they are.
#pragma once

#include "core/base/units.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"
#include "core/tensors/placement.h"
#include "core/tensors/shape.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace sextant {

// Not for several threads at once. Placements outlive it.
class MovedSizes {
 public:
  // As `collective_cost` says.
  CollectiveCost cost(const Communication& communication, const Shape& global,
                      WordsOnPlacement from, WordsOnPlacement to, std::span<const Rank> members);
  CollectiveCost cost(const PhysicalGraph& graph, const Communication& communication,
                      std::span<const Rank> members);

  std::size_t size() const { return known_.size(); }  // distinct questions

 private:
  struct Sizes {
    Bytes global_bytes, largest_volume;
  };
  // Where ranks stand in a placement, from its smallest rank on.
  struct Positions {
    static constexpr std::int32_t kOutside = -1;
    explicit Positions(const Placement& placement);
    std::int64_t of(Rank rank) const;
    std::int32_t first = 0;
    std::vector<std::int32_t> positions;
  };
  const Positions& positions_in(const Placement& placement);
  bool is_disjoint(const Placement& from, const Placement& to);

  std::map<const Placement*, Positions> positions_;
  std::map<std::pair<const Placement*, const Placement*>, bool> disjoint_;
  std::map<std::vector<std::int64_t>, Sizes> known_;
};

}  // namespace sextant
