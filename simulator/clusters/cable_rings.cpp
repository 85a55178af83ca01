// Depth-first search for edge-disjoint Hamiltonian cycles; machines have at most 16 such ends.

#include "simulator/clusters/cable_rings.h"

#include "core/base/at.h"
#include "core/base/check.h"

#include <algorithm>
#include <numeric>

namespace sextant {

namespace {

class Search {
 public:
  explicit Search(LaneCounts free) : free_(std::move(free)), visited_(free_.size()) {}

  std::int32_t most() {
    find(0);
    return best_;
  }

 private:
  std::int32_t size() const { return static_cast<std::int32_t>(free_.size()); }

  // No ring more than half of the lanes that the poorest end has left.
  std::int32_t bound() const {
    std::int32_t fewest = std::accumulate(free_[0].begin(), free_[0].end(), 0);
    for (const std::vector<std::int32_t>& row : free_)
      fewest = std::min(fewest, std::accumulate(row.begin(), row.end(), 0));
    return fewest / 2;
  }

  void find(std::int32_t found) {
    best_ = std::max(best_, found);
    if (found + bound() <= best_) return;
    visited_.assign(free_.size(), false);
    visited_[0] = true;
    extend(0, 1, found);
  }

  // The cycle so far ends at `end` and holds `length` ends.
  void extend(std::int32_t end, std::int32_t length, std::int32_t found) {
    if (++tries_ > kMostTries) return;
    if (length == size()) {
      if (free_[at(end)][0] == 0) return;
      take(end, 0, 1);
      const std::vector<bool> visited = visited_;
      find(found + 1);
      visited_ = visited;
      take(end, 0, -1);
      return;
    }
    for (std::int32_t next = 1; next < size(); ++next) {
      if (visited_[at(next)] || free_[at(end)][at(next)] == 0) continue;
      visited_[at(next)] = true;
      take(end, next, 1);
      extend(next, length + 1, found);
      take(end, next, -1);
      visited_[at(next)] = false;
    }
  }

  void take(std::int32_t a, std::int32_t b, std::int32_t lanes) {
    free_[at(a)][at(b)] -= lanes;
    free_[at(b)][at(a)] -= lanes;
  }

  static constexpr std::int64_t kMostTries = 1'000'000;
  LaneCounts free_;
  std::vector<bool> visited_;
  std::int32_t best_ = 0;
  std::int64_t tries_ = 0;
};

}  // namespace

LaneCounts lanes_of(std::int64_t ends, const std::vector<Cable>& cables) {
  const auto count = static_cast<std::size_t>(ends);
  LaneCounts lanes(count, std::vector<std::int32_t>(count));
  for (const Cable& cable : cables) {
    require(cable.first >= 0 && cable.first < ends && cable.second >= 0 && cable.second < ends &&
                cable.first != cable.second && cable.lanes > 0,
            ErrorCode::kBadInput, "cable {} - {} with {} lanes among {} ends", cable.first,
            cable.second, cable.lanes, ends);
    lanes[at(cable.first)][at(cable.second)] += cable.lanes;
    lanes[at(cable.second)][at(cable.first)] += cable.lanes;
  }
  return lanes;
}

std::int32_t num_cable_rings(const LaneCounts& lanes, std::span<const std::int32_t> members) {
  if (members.size() == 2) return lanes[at(members[0])][at(members[1])];
  LaneCounts among;
  for (const std::int32_t one : members) {
    std::vector<std::int32_t>& row = among.emplace_back();
    for (const std::int32_t other : members) row.push_back(lanes[at(one)][at(other)]);
  }
  return 2 * Search(std::move(among)).most();
}

}  // namespace sextant
