// Where the operators of an instance find what they read and write: registers of its block for what
// it makes itself, ports for all else.
#pragma once

#include "compiler/order/partition.h"
#include "compiler/words/staged_graph.h"
#include "core/base/table.h"
#include "core/graphs/physical_graph.h"

#include <cstdint>
#include <span>
#include <vector>

namespace sextant {

// Borrows the partition.
class InstanceOperands {
 public:
  explicit InstanceOperands(const Partition& partition);

  // Index of a tensor among the registers of its producer's block.
  std::int32_t register_of(StagedTensorId tensor) const;
  // Tensors that enter the instance, by port: in the order of their first readers.
  std::span<const StagedTensorId> ports(StagedInstanceId instance) const;
  // How the instance reads a tensor.
  Operand operand(StagedInstanceId instance, StagedTensorId tensor) const;

 private:
  const Partition* partition_;
  Table<StagedTensorId, std::int32_t> register_of_;
  Table<StagedInstanceId, std::vector<StagedTensorId>> ports_;
};

// How a member of a fused operator sees a tensor.
ActorMember::Operand member_operand(const StagedOp& op, StagedTensorId tensor);

}  // namespace sextant
