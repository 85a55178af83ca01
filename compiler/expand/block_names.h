// How blocks, and the instances that share one, call their operators and tensors: without the
// layer.
#pragma once

#include "compiler/order/partition.h"
#include "compiler/words/staged_graph.h"
#include "core/graphs/physical_graph.h"

#include <string>
#include <string_view>

namespace sextant {

// "layer3.attention.q" -> "attention.q": the block is that of every layer. Part of `name`.
std::string_view without_layer(std::string_view name);
// Of the operator in its block. Data and first contents are drawn by the name of an operator, so
// such names stay whole: inputs `layer0.mask` and `layer1.mask` are two.
std::string_view name_in_block(const StagedOp& op);

// "layer7.forward"; halves of transfers and host actors have the name of their operator.
std::string instance_name(const StagedGraph& graph, const InstanceSpec& instance);

// True where both instances, whose operators correspond one to one, have equal names of all.
bool have_equal_names(const StagedGraph& graph, const InstanceSpec& a, const InstanceSpec& b);
// Of all actors, registers and members of the instance.
InstanceNames names_in_block(const StagedGraph& graph, const InstanceSpec& instance);

}  // namespace sextant
