// Sizes per group from boxes of whole devices: what a member sends or receives is what it holds or
// wants, less what it holds and wants.
#include "sbp/group_costs.h"

#include "core/check.h"
#include "core/communication_volume.h"
#include "sbp/mesh_state.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>

namespace sextant {
namespace {

using Box = std::array<Interval, 16>;  // the first `rank` entries count
using Coordinates = std::array<std::int64_t, kMaxMeshAxes>;

std::int64_t overlap(const Interval& a, const Interval& b) {
  return std::max<std::int64_t>(0, std::min(a.end(), b.end()) - std::max(a.offset, b.offset));
}

// Boxes of the devices of one placement under one state.
class MeshBoxes {
 public:
  MeshBoxes(const NdSbp& words, const Placement& placement, const Shape& shape)
      : extents_(placement.hierarchy()),
        state_(words, extents_, shape),
        cuts_(state_, extents_),
        rank_(shape.rank()) {
    for (std::size_t dim = 0; dim < rank_; ++dim) whole_[dim] = {.offset = 0, .extent = shape[dim]};
  }

  std::size_t rank() const { return rank_; }
  const std::vector<std::int64_t>& extents() const { return extents_; }
  const MeshState& state() const { return state_; }
  std::span<const Cuts::Cut> cuts() const { return cuts_.all(); }
  const Box& whole() const { return whole_; }

  Box at(const Coordinates& coordinates) const {
    Box box = whole_;
    cuts_.narrow(std::span(box.data(), rank_), std::span(coordinates.data(), extents_.size()));
    return box;
  }
  std::int64_t elements(const Box& box) const {
    std::int64_t elements = 1;
    for (std::size_t dim = 0; dim < rank_; ++dim) elements *= box[dim].extent;
    return elements;
  }
  std::int64_t common(const Box& a, const Box& b) const {
    std::int64_t elements = 1;
    for (std::size_t dim = 0; dim < rank_; ++dim) elements *= overlap(a[dim], b[dim]);
    return elements;
  }
  bool next(Coordinates& coordinates) const {
    for (std::size_t axis = extents_.size(); axis-- > 0;) {
      if (++coordinates[axis] < extents_[axis]) return true;
      coordinates[axis] = 0;
    }
    return false;
  }
  std::size_t index(const Coordinates& coordinates) const {
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < extents_.size(); ++axis)
      index = index * extents_[axis] + coordinates[axis];
    return static_cast<std::size_t>(index);
  }

 private:
  std::vector<std::int64_t> extents_;
  MeshState state_;
  Cuts cuts_;
  std::size_t rank_;
  Box whole_{};
};

std::vector<GroupCost> collective_costs(const BoxingStep& step, const TensorType& type,
                                        const Placement& placement, bool only_received) {
  const MeshBoxes from(step.from, placement, type.shape), to(step.to, placement, type.shape);
  const std::int64_t element = size_of(type.dtype).value;
  std::uint32_t axes = 0;
  for (const std::size_t axis : step.group_axes) axes |= std::uint32_t{1} << axis;
  // The number of a group: coordinates of the other axes, row-major.
  const auto group_of = [&](const Coordinates& coordinates) {
    std::size_t number = 0;
    for (std::size_t axis = 0; axis < from.extents().size(); ++axis)
      if ((axes >> axis & 1U) == 0)
        number = number * static_cast<std::size_t>(from.extents()[axis]) +
                 static_cast<std::size_t>(coordinates[axis]);
    return number;
  };
  std::size_t members = 1;
  for (const std::size_t axis : step.group_axes)
    members *= static_cast<std::size_t>(from.extents()[axis]);
  std::vector<GroupCost> groups(placement.ranks.size() / members);
  Coordinates coordinates{};
  std::size_t device = 0;
  do {
    GroupCost& group = groups[group_of(coordinates)];
    group.members.push_back(placement.ranks[device++]);
    const Box held = from.at(coordinates), wanted = to.at(coordinates);
    switch (step.primitive) {
      case Primitive::kAllReduce:
      case Primitive::kReduceScatter:
        group.global_bytes = Bytes(from.elements(held) * element);
        break;
      case Primitive::kAllGather:
      case Primitive::kBroadcast:
        group.global_bytes = Bytes(to.elements(wanted) * element);
        break;
      case Primitive::kAllToAll:
      case Primitive::kTransfer: {
        // Splits on both sides: each element is wanted by exactly one member.
        const std::int64_t stays = from.common(held, wanted);
        const std::int64_t sent = only_received ? 0 : from.elements(held) - stays;
        const std::int64_t received = to.elements(wanted) - stays;
        group.global_bytes += Bytes(received * element);
        group.largest_volume =
            std::max(group.largest_volume, Bytes(std::max(sent, received) * element));
        break;
      }
    }
  } while (from.next(coordinates));
  return groups;
}

// For every receiver the senders it takes boxes from, and how many elements.
class Senders {
 public:
  Senders(const BoxingStep& step, const Shape& shape, const Placement& from, const Placement& to)
      : sent_(step.from, from, shape),
        wanted_(step.to, to, shape),
        equal_meshes_(sent_.extents() == wanted_.extents()) {
    for (std::size_t axis = 0; axis < sent_.extents().size(); ++axis)
      if (!sent_.state().is_split(axis)) replica_axes_.push_back(axis);
  }

  // Calls visit(sender, receiver, elements), receivers in order.
  template <typename Visit>
  void for_each(const Visit& visit) const {
    Coordinates at{};
    std::size_t receiver = 0;
    do {
      const Box wanted = wanted_.at(at);
      Coordinates sender = replica_for(receiver, at);
      search(0, sent_.whole(), wanted, sender, [&](const Box& held) {
        const std::int64_t elements = sent_.common(held, wanted);
        if (elements > 0) visit(sent_.index(sender), receiver, elements);
      });
      ++receiver;
    } while (wanted_.next(at));
  }

 private:
  // Walks the parts of the splits, outermost first, and leaves out what does not meet `wanted`.
  template <typename Visit>
  void search(std::size_t level, const Box& box, const Box& wanted, Coordinates& sender,
              const Visit& visit) const {
    if (level == sent_.cuts().size()) return visit(box);
    const Cuts::Cut& cut = sent_.cuts()[level];
    const Interval& whole = box[cut.dim];
    for (std::int64_t part = part_at(whole, cut.parts, wanted[cut.dim].offset); part < cut.parts;
         ++part) {
      const Interval inside = balanced_part(whole.extent, cut.parts, part);
      Box narrowed = box;
      narrowed[cut.dim] = {.offset = whole.offset + inside.offset, .extent = inside.extent};
      if (narrowed[cut.dim].offset >= wanted[cut.dim].end()) return;
      if (overlap(narrowed[cut.dim], wanted[cut.dim]) == 0) continue;
      sender[cut.axis] = part;
      search(level + 1, narrowed, wanted, sender, visit);
    }
  }

  // The part of a balanced split that holds `offset`; 0 where it lies before, `parts` behind.
  static std::int64_t part_at(const Interval& whole, std::int64_t parts, std::int64_t offset) {
    if (offset <= whole.offset) return 0;
    if (offset >= whole.end()) return parts;
    const std::int64_t quotient = whole.extent / parts, remainder = whole.extent % parts;
    const std::int64_t at = offset - whole.offset, longer = remainder * (quotient + 1);
    return at < longer ? at / (quotient + 1) : remainder + (at - longer) / quotient;
  }

  // Coordinates of the replica that serves this receiver; those of the splits are searched.
  Coordinates replica_for(std::size_t receiver, const Coordinates& own) const {
    Coordinates coordinates{};
    auto turn = static_cast<std::int64_t>(receiver);
    for (auto axis = replica_axes_.rbegin(); axis != replica_axes_.rend(); ++axis) {
      const std::int64_t extent = sent_.extents()[*axis];
      coordinates[*axis] = equal_meshes_ ? own[*axis] : turn % extent;
      turn /= extent;
    }
    return coordinates;
  }

  MeshBoxes sent_, wanted_;
  bool equal_meshes_;
  std::vector<std::size_t> replica_axes_;
};

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

std::vector<GroupCost> transfer_costs(const BoxingStep& step, const TensorType& type,
                                      const Placement& from, const Placement& to) {
  const std::size_t num_senders = from.ranks.size();
  const std::size_t num_nodes = num_senders + to.ranks.size();
  Components components(num_nodes);
  std::vector<std::int64_t> moved(num_nodes);
  Senders(step, type.shape, from, to)
      .for_each([&](std::size_t sender, std::size_t receiver, std::int64_t elements) {
        components.join(sender, num_senders + receiver);
        moved[sender] += elements;
        moved[num_senders + receiver] += elements;
      });
  const std::int64_t element = size_of(type.dtype).value;
  std::vector<GroupCost> groups;
  std::vector<std::size_t> group_of(num_nodes);
  for (std::size_t node = 0; node < num_nodes; ++node) {
    const std::size_t root = components.root(node);
    if (root == node) {
      group_of[node] = groups.size();
      groups.emplace_back();
    }
    GroupCost& group = groups[group_of[root]];
    const bool sends = node < num_senders;
    group.members.push_back(sends ? from.ranks[node] : to.ranks[node - num_senders]);
    const Bytes bytes(moved[node] * element);
    if (!sends) group.global_bytes += bytes;
    group.largest_volume = std::max(group.largest_volume, bytes);
  }
  return groups;
}

// Replicas are chosen inside the group by box_moves: its word counts where this file's rule of
// equal coordinates does not say the same.
void take_listed_volumes(const BoxingStep& step, const TensorType& type, const Placement& from,
                         const Placement& to, std::vector<GroupCost>& groups) {
  Communication communication;
  communication.primitive = step.primitive;
  communication.reduce = step.reduce;
  communication.dtype = type.dtype;
  for (GroupCost& group : groups) {
    const CollectiveCost cost = collective_cost(communication, type.shape, {&step.from, &from},
                                                {&step.to, &to}, group.members);
    group.global_bytes = cost.global_bytes;
    group.largest_volume = cost.largest_volume;
  }
}

}  // namespace

bool lists_boxes(const BoxingStep& step) {
  return step.kind == BoxingKind::kCollective && step.primitive == Primitive::kAllToAll &&
         step.group_axes.size() > 1;
}

std::vector<GroupCost> group_costs(const BoxingStep& step, const TensorType& type,
                                   const Placement& from, const Placement& to, Volumes volumes) {
  switch (step.kind) {
    case BoxingKind::kLocal:
    case BoxingKind::kCast:
      return {};
    case BoxingKind::kTransfer: {
      std::vector<GroupCost> groups = transfer_costs(step, type, from, to);
      if (from.hierarchy() != to.hierarchy()) take_listed_volumes(step, type, from, to, groups);
      return groups;
    }
    case BoxingKind::kCollective:
      break;
  }
  std::vector<GroupCost> groups = collective_costs(step, type, from, lists_boxes(step));
  if (lists_boxes(step) && volumes == Volumes::kExact)
    take_listed_volumes(step, type, from, to, groups);
  return groups;
}

}  // namespace sextant
