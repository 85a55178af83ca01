// One pass over the members in order of rank.

#include "simulator/clusters/group_shape.h"

#include "core/base/check.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

namespace sextant {

// Fits by the positions of members, where they depend on them: a ring over cables is searched for
// only once.
class GroupShapes::Fits {
 public:
  Fits(NetworkLink link, std::int64_t ends) : link_(std::move(link)), ends_(ends) {}

  bool is_trivial() const { return link_.wiring == Wiring::kSwitch; }

  WiringFit of(const std::vector<std::int32_t>& positions) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(positions);
    if (known != known_.end()) return known->second;
    return known_.emplace(positions, fit_of(link_, ends_, positions)).first->second;
  }

 private:
  NetworkLink link_;
  std::int64_t ends_;
  std::mutex mutex_;
  std::map<std::vector<std::int32_t>, WiringFit> known_;
};

GroupShapes::GroupShapes(const Cluster& cluster)
    : devices_per_node_(cluster.devices_per_node),
      local_(std::make_unique<Fits>(cluster.intra_node, cluster.devices_per_node)),
      remote_(std::make_unique<Fits>(cluster.inter_node,
                                     cluster.outer_tiers.empty()
                                         ? cluster.nodes
                                         : cluster.outer_tiers.front().nodes_per_group)) {
  require(cluster.outer_tiers.size() <= kMaxOuterTiers, ErrorCode::kBadInput,
          "{} outer tiers, at most {} are modelled", cluster.outer_tiers.size(), kMaxOuterTiers);
  for (const OuterTier& tier : cluster.outer_tiers)
    devices_per_group_.push_back(tier.nodes_per_group * cluster.devices_per_node);
}

GroupShapes::~GroupShapes() = default;

GroupShape GroupShapes::of(std::span<const Rank> members) const {
  if (std::is_sorted(members.begin(), members.end())) return of_sorted(members);
  std::vector<Rank> sorted(members.begin(), members.end());
  std::sort(sorted.begin(), sorted.end());
  return of_sorted(sorted);
}

namespace {

struct Runs {
  std::int64_t count = 0, fewest = 0, most = 0;
};

// Runs of members in one stretch of `size` devices; no division per member.
Runs runs_of(std::span<const Rank> members, std::int64_t size) {
  Runs runs{0, std::numeric_limits<std::int64_t>::max(), 0};
  for (std::size_t begin = 0; begin < members.size();) {
    const std::int64_t first = members[begin].value;
    const std::int64_t border = (first / size + 1) * size;
    std::size_t end = begin + 1;
    if (members.back().value < border)
      end = members.size();
    else
      while (end < members.size() && members[end].value < border) ++end;
    const auto length = static_cast<std::int64_t>(end - begin);
    ++runs.count;
    runs.fewest = std::min(runs.fewest, length);
    runs.most = std::max(runs.most, length);
    begin = end;
  }
  return runs;
}

}  // namespace

GroupShape GroupShapes::of_sorted(std::span<const Rank> members) const {
  GroupShape shape;
  shape.members = static_cast<std::int64_t>(members.size());
  const Runs nodes = runs_of(members, devices_per_node_);
  shape.nodes = nodes.count;
  shape.fewest = nodes.fewest;
  shape.most = nodes.most;
  shape.local.steps = static_cast<double>(shape.most - 1);
  shape.remote.steps = static_cast<double>(shape.nodes - 1);
  if (shape.nodes > 1) add_tiers(members, shape);
  add_fits(members, shape);
  return shape;
}

void GroupShapes::add_tiers(std::span<const Rank> members, GroupShape& shape) const {
  for (std::size_t tier = 0; tier < devices_per_group_.size(); ++tier) {
    const Runs groups = runs_of(members, devices_per_group_[tier]);
    shape.tiers[tier] = {groups.count, groups.fewest};
  }
}

void GroupShapes::add_fits(std::span<const Rank> members, GroupShape& shape) const {
  if (!local_->is_trivial()) shape.local = local_fit(members);
  if (!remote_->is_trivial() && shape.nodes > 1) shape.remote = remote_fit(members);
}

namespace {

// Positions in stretches of `size`, one list per stretch; `unit` ranks share a position.
std::vector<std::vector<std::int32_t>> positions_of(std::span<const Rank> members,
                                                    std::int64_t size, std::int64_t unit) {
  std::vector<std::vector<std::int32_t>> lists;
  std::int64_t stretch = -1;
  for (const Rank member : members) {
    if (member.value / size != stretch) lists.emplace_back();
    stretch = member.value / size;
    const auto position = static_cast<std::int32_t>(member.value % size / unit);
    if (lists.back().empty() || lists.back().back() != position) lists.back().push_back(position);
  }
  return lists;
}

}  // namespace

namespace {

// Appends in which stretch of `size` devices each rank lies, stretches without ranks left out.
void append_stretches(std::span<const Rank> ranks, std::int64_t size,
                      std::vector<std::int64_t>& places) {
  std::vector<std::int64_t> stretches;
  stretches.reserve(ranks.size());
  for (const Rank rank : ranks) stretches.push_back(rank.value / size);
  std::vector<std::int64_t> sorted = stretches;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  for (const std::int64_t stretch : stretches)
    places.push_back(std::lower_bound(sorted.begin(), sorted.end(), stretch) - sorted.begin());
}

}  // namespace

// Shapes count the members of nodes and of groups of nodes, whichever these are; where the wiring
// of a node or of its group is looked at, the positions there count as well.
std::vector<std::int64_t> GroupShapes::places_of(std::span<const Rank> ranks) const {
  std::vector<std::int64_t> places;
  append_stretches(ranks, devices_per_node_, places);
  for (const std::int64_t size : devices_per_group_) append_stretches(ranks, size, places);
  if (!local_->is_trivial())
    for (const Rank rank : ranks) places.push_back(rank.value % devices_per_node_);
  if (!remote_->is_trivial())
    for (const Rank rank : ranks)
      places.push_back(
          (devices_per_group_.empty() ? rank.value : rank.value % devices_per_group_.front()) /
          devices_per_node_);
  return places;
}

WiringFit GroupShapes::local_fit(std::span<const Rank> members) const {
  WiringFit worst;
  for (const auto& positions : positions_of(members, devices_per_node_, 1))
    worst = worse_of(worst, local_->of(positions));
  return worst;
}

WiringFit GroupShapes::remote_fit(std::span<const Rank> members) const {
  const std::int64_t size = devices_per_group_.empty() ? std::numeric_limits<std::int64_t>::max()
                                                       : devices_per_group_.front();
  WiringFit worst;
  for (const auto& positions : positions_of(members, size, devices_per_node_))
    worst = worse_of(worst, remote_->of(positions));
  return worst;
}

}  // namespace sextant
