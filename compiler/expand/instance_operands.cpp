// Registers are numbered in the order in which they are written.
#include "compiler/expand/instance_operands.h"

#include <algorithm>

namespace sextant {
namespace {

Table<StagedTensorId, std::int32_t> registers_of(const Partition& partition) {
  Table<StagedTensorId, std::int32_t> register_of(partition.graph().tensors.size());
  for (const InstanceSpec& instance : partition.instances()) {
    std::int32_t next = 0;
    for (const StagedOpId op : instance.ops)
      for (const StagedTensorId out : partition.graph().ops[op].out) register_of[out] = next++;
  }
  return register_of;
}

std::vector<StagedTensorId> ports_of(const Partition& partition, StagedInstanceId instance) {
  std::vector<StagedTensorId> ports;
  for (const StagedOpId op : partition.instances()[instance].ops)
    for (const StagedTensorId in : partition.graph().ops[op].in) {
      const StagedOpId producer = partition.graph().tensors[in].producer;
      if (partition.place(producer).instance == instance) continue;
      if (std::find(ports.begin(), ports.end(), in) == ports.end()) ports.push_back(in);
    }
  return ports;
}

}  // namespace

InstanceOperands::InstanceOperands(const Partition& partition)
    : partition_(&partition), register_of_(registers_of(partition)) {
  for (const StagedInstanceId instance : partition.instances().keys())
    ports_.push_back(ports_of(partition, instance));
}

std::int32_t InstanceOperands::register_of(StagedTensorId tensor) const {
  return register_of_[tensor];
}

std::span<const StagedTensorId> InstanceOperands::ports(StagedInstanceId instance) const {
  return ports_[instance];
}

Operand InstanceOperands::operand(StagedInstanceId instance, StagedTensorId tensor) const {
  const StagedOpId producer = partition_->graph().tensors[tensor].producer;
  if (partition_->place(producer).instance == instance)
    return {Operand::Source::kRegister, register_of(tensor)};
  const auto& ports = ports_[instance];
  const auto port = std::find(ports.begin(), ports.end(), tensor) - ports.begin();
  return {Operand::Source::kPort, static_cast<std::int32_t>(port)};
}

ActorMember::Operand member_operand(const StagedOp& op, StagedTensorId tensor) {
  using Source = ActorMember::Operand::Source;
  const auto position = [&](const std::vector<StagedTensorId>& tensors) {
    return static_cast<std::int32_t>(std::find(tensors.begin(), tensors.end(), tensor) -
                                     tensors.begin());
  };
  if (const std::int32_t index = position(op.out); index < std::ssize(op.out))
    return {Source::kOutput, index};
  if (const std::int32_t index = position(op.inner); index < std::ssize(op.inner))
    return {Source::kInner, index};
  return {Source::kInput, position(op.in)};
}

}  // namespace sextant
