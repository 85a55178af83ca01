// Registers are numbered in the order in which they are written.
#include "compiler/expand/instance_operands.h"

#include "core/base/at.h"

#include <algorithm>

namespace sextant {
namespace {

std::vector<std::int32_t> registers_of(const Partition& partition) {
  std::vector<std::int32_t> register_of(partition.graph().tensors.size(), -1);
  for (const InstanceSpec& instance : partition.instances()) {
    std::int32_t next = 0;
    for (const StagedOpIndex op : instance.ops)
      for (const StagedTensorIndex out : at(partition.graph().ops, op).out)
        at(register_of, out) = next++;
  }
  return register_of;
}

std::vector<StagedTensorIndex> ports_of(const Partition& partition, std::int32_t instance) {
  std::vector<StagedTensorIndex> ports;
  for (const StagedOpIndex op : at(partition.instances(), instance).ops)
    for (const StagedTensorIndex in : at(partition.graph().ops, op).in) {
      const StagedOpIndex producer = at(partition.graph().tensors, in).producer;
      if (partition.place(producer).instance == instance) continue;
      if (std::find(ports.begin(), ports.end(), in) == ports.end()) ports.push_back(in);
    }
  return ports;
}

}  // namespace

InstanceOperands::InstanceOperands(const Partition& partition)
    : partition_(&partition), register_of_(registers_of(partition)) {
  const auto num_instances = static_cast<std::int32_t>(partition.instances().size());
  for (std::int32_t instance = 0; instance < num_instances; ++instance)
    ports_.push_back(ports_of(partition, instance));
}

std::int32_t InstanceOperands::register_of(StagedTensorIndex tensor) const {
  return at(register_of_, tensor);
}

std::span<const StagedTensorIndex> InstanceOperands::ports(std::int32_t instance) const {
  return at(ports_, instance);
}

Operand InstanceOperands::operand(std::int32_t instance, StagedTensorIndex tensor) const {
  const StagedOpIndex producer = at(partition_->graph().tensors, tensor).producer;
  if (partition_->place(producer).instance == instance)
    return {Operand::Source::kRegister, register_of(tensor)};
  const auto& ports = at(ports_, instance);
  const auto port = std::find(ports.begin(), ports.end(), tensor) - ports.begin();
  return {Operand::Source::kPort, static_cast<std::int32_t>(port)};
}

ActorMember::Operand member_operand(const StagedOp& op, StagedTensorIndex tensor) {
  using Source = ActorMember::Operand::Source;
  const auto position = [&](const std::vector<StagedTensorIndex>& tensors) {
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
