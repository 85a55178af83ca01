// Device groups of a staged graph and the role each has in the programs of its stages: one role per
// set of mesh axes that collectives of a stage run over, one per relation and direction of
// transfers.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/base/ids.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sextant {

class GroupTable {
 public:
  explicit GroupTable(const StagedGraph& graph);

  const Table<GroupId, DeviceGroup>& groups() const { return groups_; }
  std::int32_t num_roles(int stage) const;
  // Of a communication.
  GroupRole role(StagedOpId op) const;
  // Groups of one device of a stage, by role.
  std::vector<GroupId> groups_of_member(int stage, std::int32_t member) const;

 private:
  // Who exchanges something in a transfer, as positions: senders' ranks first, then the receivers'
  // (counted on from the number of senders). The same for every pair of stages of equal shape.
  using Components = std::vector<std::vector<std::int32_t>>;
  struct Relation {
    std::vector<MeshAxis> from_axes, to_axes;
    NdSbp from, to;
    Shape shape;
    std::int32_t components = 0;  // in components_
  };
  // Transfers of one direction with equal components share groups; opposite directions do not,
  // because they are on queues of their own.
  struct TransferRole {
    int from_stage = 0, to_stage = 0;
    bool backward = false;
    std::int32_t components = 0;
    GroupRole send = 0, receive = 0;
  };
  struct CollectiveRole {
    int stage = 0;
    std::vector<std::size_t> axes;
    GroupRole role = 0;
  };

  GroupRole collective_role(const StagedOp& op);
  const TransferRole& transfer_role(const StagedOp& op, const Shape& shape);
  std::int32_t components_of(const StagedCommunication& transfer, const Shape& shape);
  TransferRole make_transfer_groups(TransferRole role);
  GroupRole add_role(int stage, std::vector<GroupId> of_member);

  const StagedGraph* graph_;
  Table<GroupId, DeviceGroup> groups_;
  Table<StagedOpId, GroupRole> role_of_op_;               // -1: none
  std::vector<std::vector<std::vector<GroupId>>> roles_;  // by stage, role, member
  std::vector<CollectiveRole> collective_roles_;
  std::vector<TransferRole> transfer_roles_;
  std::vector<Relation> relations_;
  std::vector<Components> components_;
};

}  // namespace sextant
