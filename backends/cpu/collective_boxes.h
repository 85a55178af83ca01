// What the members of a communication hold before and after it, and how much scratch that takes:
// collectives without their memory. Internal to backends/cpu.
#pragma once

#include "backends/cpu/collectives.h"
#include "core/costs/communication_volume.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// One dim, a part of a buffer.
Shard flat_part(std::int64_t offset, std::int64_t extent);

// `most_at_once`: elements of a sum that the memory moves at a time.
class CollectiveBoxes {
 public:
  // `ranks`: the members in group order. Borrows all of it.
  CollectiveBoxes(const PhysicalGraph& graph, const Communication& communication,
                  std::span<const Rank> ranks);

  // Elements of scratch of all members together, while it runs.
  std::int64_t scratch_elements(std::int64_t most_at_once) const;
  // Elements beside that scratch, in each process of several.
  std::int64_t spread_elements(const MemberHomes& homes, std::int64_t most_at_once) const;

 protected:
  std::size_t size() const { return ranks_.size(); }
  std::size_t after(std::size_t member) const { return (member + 1) % size(); }
  WordsOnPlacement side(const Layout& layout) const {
    return {&layout.words, &graph_.placements[layout.placement]};
  }
  // Throws Error(kInternal) where members differ.
  void require_equal_boxes(const std::vector<Shard>& boxes) const;
  // Elements of each owner's part that an all_reduce moves at a time.
  std::int64_t longest_piece(std::int64_t most_at_once) const;

  const PhysicalGraph& graph_;
  const Communication& communication_;
  const std::span<const Rank> ranks_;
  const Layout& from_;
  const Layout& to_;
  std::vector<Shard> in_boxes_, out_boxes_;  // by member
};

}  // namespace sextant
