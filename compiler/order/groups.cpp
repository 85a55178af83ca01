// Groups are worked out once per kind of relation, then stamped out for every stage.
#include "compiler/order/groups.h"

#include "core/base/at.h"
#include "core/base/check.h"
#include "sbp/boxing.h"

#include <algorithm>
#include <utility>

namespace sextant {
namespace {

Placement placement_of_positions(const std::vector<MeshAxis>& axes, std::int32_t first) {
  Placement placement{axes, {}};
  std::int64_t size = 1;
  for (const MeshAxis& axis : axes) size *= axis.extent;
  for (std::int32_t i = 0; i < size; ++i) placement.ranks.push_back(Rank(first + i));
  return placement;
}

// Members that agree on all axes but these have the same number.
std::int64_t group_number(const Placement& placement, const std::vector<std::size_t>& axes,
                          std::int32_t member) {
  const auto coordinates = placement.coordinates_of(at(member));
  std::int64_t number = 0;
  for (std::size_t axis = 0; axis < placement.axes.size(); ++axis)
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      number = number * placement.axes[axis].extent + coordinates[axis];
  return number;
}

// A device with nothing to exchange (an empty shard) shares the program of those that have, so it
// takes part as well: in the first group, which has both senders and receivers.
void add_idle(std::vector<std::vector<std::int32_t>>& components, std::int32_t num_senders,
              std::int32_t num_positions) {
  std::erase_if(components, [&](const std::vector<std::int32_t>& component) {
    const auto sends = [&](std::int32_t position) { return position < num_senders; };
    return std::all_of(component.begin(), component.end(), sends) ||
           std::none_of(component.begin(), component.end(), sends);
  });
  std::vector<bool> found(at(num_positions), false);
  for (const auto& component : components)
    for (const std::int32_t position : component) at(found, position) = true;
  if (std::find(found.begin(), found.end(), false) == found.end()) return;
  if (components.empty()) components.emplace_back();
  for (std::int32_t position = 0; position < num_positions; ++position)
    if (!at(found, position)) components.front().push_back(position);
  // Senders have the smaller positions.
  std::sort(components.front().begin(), components.front().end());
}

}  // namespace

GroupTable::GroupTable(const StagedGraph& graph) : graph_(&graph) {
  role_of_op_.assign(graph.ops.size(), -1);
  roles_.resize(graph.placements.size());
  for (const StagedOpId index : graph.ops.keys()) {
    const StagedOp& op = graph.ops[index];
    if (!op.communication) continue;
    if (op.communication->primitive != Primitive::kTransfer) {
      role_of_op_[index] = collective_role(op);
    } else if (op.communication->side == Side::kSend) {
      const Shape& shape = graph.tensors[op.in.front()].global.shape;
      const TransferRole& role = transfer_role(op, shape);
      role_of_op_[index] = role.send;
      role_of_op_[op.communication->peer] = role.receive;
    }
  }
}

std::int32_t GroupTable::num_roles(int stage) const {
  return static_cast<std::int32_t>(at(roles_, stage).size());
}

GroupRole GroupTable::role(StagedOpId op) const { return role_of_op_[op]; }

std::vector<GroupId> GroupTable::groups_of_member(int stage, std::int32_t member) const {
  std::vector<GroupId> groups;
  for (const auto& of_member : at(roles_, stage)) groups.push_back(at(of_member, member));
  return groups;
}

GroupRole GroupTable::add_role(int stage, std::vector<GroupId> of_member) {
  at(roles_, stage).push_back(std::move(of_member));
  return static_cast<GroupRole>(at(roles_, stage).size() - 1);
}

GroupRole GroupTable::collective_role(const StagedOp& op) {
  const std::vector<std::size_t>& axes = op.communication->group_axes;
  for (const CollectiveRole& known : collective_roles_)
    if (known.stage == op.stage && known.axes == axes) return known.role;

  const Placement& placement = at(graph_->placements, op.stage);
  std::string name = fmt::format("stage{}", op.stage);
  std::int64_t members = 1;
  for (const std::size_t axis : axes) {
    name += "." + placement.axes[axis].name;
    members *= placement.axes[axis].extent;
  }
  const GroupId first = groups_.next_key();
  for (std::int64_t i = 0; i < placement.size() / members; ++i)
    groups_.push_back({fmt::format("{}[{}]", name, i), {}});
  std::vector<GroupId> of_member;
  for (std::int32_t member = 0; member < placement.size(); ++member) {
    const auto number = static_cast<std::int32_t>(group_number(placement, axes, member));
    of_member.push_back(first.plus(number));
    groups_[of_member.back()].ranks.push_back(at(placement.ranks, member));
  }
  collective_roles_.push_back({op.stage, axes, add_role(op.stage, std::move(of_member))});
  return collective_roles_.back().role;
}

std::int32_t GroupTable::components_of(const StagedCommunication& transfer, const Shape& shape) {
  const std::vector<MeshAxis>& from_axes = at(graph_->placements, transfer.from_stage).axes;
  const std::vector<MeshAxis>& to_axes = at(graph_->placements, transfer.to_stage).axes;
  for (const Relation& known : relations_)
    if (known.from == transfer.from && known.to == transfer.to && known.shape == shape &&
        known.from_axes == from_axes && known.to_axes == to_axes)
      return known.components;

  const Placement from = placement_of_positions(from_axes, 0);
  const Placement to = placement_of_positions(to_axes, static_cast<std::int32_t>(from.size()));
  const BoxingStep step{BoxingKind::kTransfer, Primitive::kTransfer, transfer.reduce,
                        transfer.from,         transfer.to,          {}};
  Components components;
  for (const std::vector<Rank>& group : groups_of(step, {shape, transfer.dtype}, from, to)) {
    components.emplace_back();
    for (const Rank rank : group) components.back().push_back(rank.value);
  }
  add_idle(components, static_cast<std::int32_t>(from.size()),
           static_cast<std::int32_t>(from.size() + to.size()));
  auto known = std::find(components_.begin(), components_.end(), components);
  if (known == components_.end())
    known = components_.insert(components_.end(), std::move(components));
  const auto id = static_cast<std::int32_t>(known - components_.begin());
  relations_.push_back({from_axes, to_axes, transfer.from, transfer.to, shape, id});
  return id;
}

const GroupTable::TransferRole& GroupTable::transfer_role(const StagedOp& op, const Shape& shape) {
  const StagedCommunication& transfer = *op.communication;
  const TransferRole wanted{transfer.from_stage, transfer.to_stage,
                            op.queue == QueueRole::kTransferOutBackward,
                            components_of(transfer, shape)};
  for (const TransferRole& known : transfer_roles_)
    if (known.from_stage == wanted.from_stage && known.to_stage == wanted.to_stage &&
        known.backward == wanted.backward && known.components == wanted.components)
      return known;
  transfer_roles_.push_back(make_transfer_groups(wanted));
  return transfer_roles_.back();
}

GroupTable::TransferRole GroupTable::make_transfer_groups(TransferRole role) {
  const Placement& from = at(graph_->placements, role.from_stage);
  const Placement& to = at(graph_->placements, role.to_stage);
  const auto num_senders = static_cast<std::int32_t>(from.size());
  std::vector<GroupId> of_sender(from.ranks.size()), of_receiver(to.ranks.size());
  std::int32_t number = 0;
  const auto add_group = [&](const std::vector<std::int32_t>& positions) {
    DeviceGroup group{fmt::format("stage{}-stage{}.{}[{}]", role.from_stage, role.to_stage,
                                  role.backward ? "backward" : "forward", number++),
                      {}};
    for (const std::int32_t position : positions) {
      const bool sends = position < num_senders;
      at(sends ? of_sender : of_receiver, sends ? position : position - num_senders) =
          groups_.next_key();
      group.ranks.push_back(sends ? at(from.ranks, position)
                                  : at(to.ranks, position - num_senders));
    }
    groups_.push_back(std::move(group));
  };
  for (const std::vector<std::int32_t>& component : at(components_, role.components))
    add_group(component);
  role.send = add_role(role.from_stage, std::move(of_sender));
  role.receive = add_role(role.to_stage, std::move(of_receiver));
  return role;
}

}  // namespace sextant
