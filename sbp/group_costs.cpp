// Sizes per group from boxes of whole devices, without a list of boxes.
#include "sbp/group_costs.h"

#include "core/base/check.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

namespace sextant {
namespace {

// Disjoint sets whose root is their smallest member.
class Components {
 public:
  explicit Components(std::size_t size) : parent_(size) {
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
  }
  std::size_t root(std::size_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void join(std::size_t a, std::size_t b) {
    a = root(a);
    b = root(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

std::vector<GroupCost> ring_costs(const AxisGroups& groups, Primitive primitive,
                                  const MeshBoxes& from, const MeshBoxes& to, Bytes element) {
  // All members hold, or all want, the same box.
  const bool gathers = primitive == Primitive::kAllGather || primitive == Primitive::kBroadcast;
  const MeshBoxes& whole = gathers ? to : from;
  std::vector<GroupCost> costs(groups.size());
  for (std::size_t group = 0; group < costs.size(); ++group) {
    const std::size_t first = group * groups.members;
    costs[group].members.assign(
        groups.ranks.begin() + static_cast<std::ptrdiff_t>(first),
        groups.ranks.begin() + static_cast<std::ptrdiff_t>(first + groups.members));
    costs[group].global_bytes =
        element * whole.box_at(whole.coordinates_of(groups.devices[first])).elements();
  }
  return costs;
}

std::vector<GroupCost> exchange_costs(const AxisGroups& groups, const MeshBoxes& from,
                                      const MeshBoxes& to, const Placement& placement,
                                      Bytes element, WorkBudget* work) {
  const std::size_t num_devices = placement.ranks.size();
  std::vector<std::int64_t> sent(num_devices), received(num_devices);
  const CommonDevices all(placement.ranks, placement.ranks);
  const Moves moves(from, to, all);
  for (std::size_t device = 0; device < num_devices; ++device)
    moves.visit_to(device, [&](std::size_t source, const Box& box) {
      if (work != nullptr) work->spend(kVisitWork);
      if (source == device) return;
      sent[source] += box.elements();
      received[device] += box.elements();
    });
  std::vector<GroupCost> costs(groups.size());
  for (std::size_t i = 0; i < num_devices; ++i) {
    GroupCost& cost = costs[i / groups.members];
    const std::uint32_t device = groups.devices[i];
    cost.members.push_back(groups.ranks[i]);
    cost.global_bytes += element * received[device];
    cost.largest_volume =
        std::max(cost.largest_volume, element * std::max(sent[device], received[device]));
  }
  return costs;
}

}  // namespace

const Placement& placement_of(const BoxingStep& step, const Placement& from, const Placement& to) {
  return step.where == BoxingWhere::kTarget ? to : from;
}

AxisGroups groups_along(std::uint32_t axes, const Placement& placement) {
  const auto in_group = [&](std::size_t axis) { return (axes >> axis & 1U) != 0; };
  // Devices in steps of `inner` follow each other in a group, in steps of `outer` groups do.
  const std::size_t num_axes = placement.axes.size();
  std::vector<std::size_t> order;
  for (std::size_t axis = 0; axis < num_axes; ++axis)
    if (!in_group(axis)) order.push_back(axis);
  AxisGroups groups;
  for (std::size_t axis = 0; axis < num_axes; ++axis)
    if (in_group(axis)) {
      order.push_back(axis);
      groups.members *= static_cast<std::size_t>(placement.axes[axis].extent);
    }
  std::vector<std::size_t> strides(num_axes, 1);
  for (std::size_t axis = num_axes; axis-- > 1;)
    strides[axis - 1] = strides[axis] * static_cast<std::size_t>(placement.axes[axis].extent);
  groups.devices = {0};
  groups.devices.reserve(placement.ranks.size());
  for (std::size_t at = order.size(); at-- > 0;) {
    const std::size_t axis = order[at], known = groups.devices.size();
    for (std::int64_t coordinate = 1; coordinate < placement.axes[axis].extent; ++coordinate)
      for (std::size_t i = 0; i < known; ++i)
        groups.devices.push_back(
            groups.devices[i] +
            static_cast<std::uint32_t>(strides[axis] * static_cast<std::size_t>(coordinate)));
  }
  for (const std::uint32_t device : groups.devices) groups.ranks.push_back(placement.ranks[device]);
  return groups;
}

std::vector<GroupCost> transfer_costs(const MeshBoxes& from, const Placement& source,
                                      const MeshBoxes& to, const Placement& target,
                                      const CommonDevices& common, Bytes element,
                                      WorkBudget* work) {
  const Moves moves(from, to, common);
  const std::size_t num_sources = source.ranks.size();
  // A device of both placements is one node: that of the source.
  std::vector<Rank> ranks = source.ranks;
  std::vector<std::size_t> node_of;
  for (std::size_t device = 0; device < target.ranks.size(); ++device) {
    const auto own = common.source_of(device);
    node_of.push_back(own ? *own : ranks.size());
    if (!own) ranks.push_back(target.ranks[device]);
  }
  Components components(num_sources + target.ranks.size());
  std::vector<std::int64_t> sent(ranks.size()), received(ranks.size());
  for (std::size_t device = 0; device < target.ranks.size(); ++device)
    moves.visit_to(device, [&](std::size_t sender, const Box& box) {
      if (work != nullptr) work->spend(kVisitWork);
      const std::size_t receiver = node_of[device];
      if (sender == receiver) return;
      components.join(sender, receiver);
      sent[sender] += box.elements();
      received[receiver] += box.elements();
    });
  std::vector<GroupCost> groups;
  std::vector<std::size_t> group_of(ranks.size());
  for (std::size_t node = 0; node < ranks.size(); ++node) {
    const std::size_t root = components.root(node);
    if (root == node) {
      group_of[node] = groups.size();
      groups.emplace_back();
    }
    GroupCost& group = groups[group_of[root]];
    group.members.push_back(ranks[node]);
    group.global_bytes += element * received[node];
    group.largest_volume =
        std::max(group.largest_volume, element * std::max(sent[node], received[node]));
  }
  return groups;
}

std::optional<Bytes> bytes_across(const BoxingStep& step, const TensorType& type,
                                  const Placement& from, const Placement& to) {
  if (!CommonDevices(from.ranks, to.ranks).none()) return std::nullopt;
  const std::int64_t sent = MeshBoxes(step.from, from, type.shape).num_shares();
  const MeshBoxes target(step.to, to, type.shape);
  const std::int64_t taken = target.num_shares();
  std::int64_t elements = 0;
  for (std::size_t device = 0; device < to.ranks.size(); ++device) {
    const MeshBoxes::Coordinates at = target.coordinates_of(device);
    // Shares own, own + taken, ... of those that are sent.
    const std::int64_t own = target.share_of(at);
    const std::int64_t shares = (sent - own + taken - 1) / taken;
    elements += target.box_at(at).elements() * shares;
  }
  return size_of(type.dtype) * elements;
}

std::vector<GroupCost> group_costs(const BoxingStep& step, const TensorType& type,
                                   const Placement& from, const Placement& to, WorkBudget* work) {
  const Bytes element = size_of(type.dtype);
  switch (step.kind) {
    case BoxingKind::kLocal:
    case BoxingKind::kCast:
      return {};
    case BoxingKind::kTransfer:
      return transfer_costs(MeshBoxes(step.from, from, type.shape), from,
                            MeshBoxes(step.to, to, type.shape), to,
                            CommonDevices(from.ranks, to.ranks), element, work);
    case BoxingKind::kCollective:
      break;
  }
  const Placement& placement = placement_of(step, from, to);
  std::uint32_t axes = 0;
  for (const std::size_t axis : step.group_axes) axes |= std::uint32_t{1} << axis;
  const AxisGroups groups = groups_along(axes, placement);
  const MeshBoxes before(step.from, placement, type.shape), after(step.to, placement, type.shape);
  if (step.primitive == Primitive::kAllToAll)
    return exchange_costs(groups, before, after, placement, element, work);
  return ring_costs(groups, step.primitive, before, after, element);
}

}  // namespace sextant
