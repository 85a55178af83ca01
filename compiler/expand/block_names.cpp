// Names without layers.
#include "compiler/expand/block_names.h"

#include "core/base/at.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace sextant {

std::string_view without_layer(std::string_view name) {
  constexpr std::string_view kLayer = "layer";
  if (!name.starts_with(kLayer)) return name;
  std::size_t end = kLayer.size();
  while (end < name.size() && std::isdigit(static_cast<unsigned char>(name[end])) != 0) ++end;
  if (end == kLayer.size() || end + 1 >= name.size() || name[end] != '.') return name;
  return name.substr(end + 1);
}

std::string_view name_in_block(const StagedOp& op) {
  const bool is_drawn = op.queue == QueueRole::kHost || op.role == OperatorRole::kParameter;
  return is_drawn ? std::string_view(op.name) : without_layer(op.name);
}

std::string instance_name(const StagedGraph& graph, const InstanceSpec& instance) {
  if (instance.part == StepPart::kTransfer || instance.part == StepPart::kHost)
    return graph.ops[instance.ops.front()].name;
  return fmt::format("layer{}.{}", instance.layer, to_string(instance.part));
}

bool have_equal_names(const StagedGraph& graph, const InstanceSpec& a, const InstanceSpec& b) {
  const auto same_op = [&](StagedOpId mine, StagedOpId other) {
    const StagedOp &one = graph.ops[mine], &two = graph.ops[other];
    return name_in_block(one) == name_in_block(two) &&
           std::equal(one.members.begin(), one.members.end(), two.members.begin(),
                      [](const StagedMember& x, const StagedMember& y) {
                        return without_layer(x.name) == without_layer(y.name);
                      }) &&
           std::equal(one.out.begin(), one.out.end(), two.out.begin(),
                      [&](StagedTensorId x, StagedTensorId y) {
                        return without_layer(graph.tensors[x].name) ==
                               without_layer(graph.tensors[y].name);
                      });
  };
  return std::equal(a.ops.begin(), a.ops.end(), b.ops.begin(), same_op);
}

InstanceNames names_in_block(const StagedGraph& graph, const InstanceSpec& instance) {
  InstanceNames names;
  for (const StagedOpId index : instance.ops) {
    const StagedOp& op = graph.ops[index];
    names.actors.emplace_back(name_in_block(op));
    for (const StagedMember& member : op.members)
      names.members.emplace_back(without_layer(member.name));
    for (const StagedTensorId out : op.out)
      names.registers.emplace_back(without_layer(graph.tensors[out].name));
  }
  return names;
}

}  // namespace sextant
