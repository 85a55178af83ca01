// Key/value heads that several devices share: the mesh that tensor parallelism gets where a model
// has fewer of them than devices.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"

namespace sextant {

// The strategy with `key_head_parts` set where attention has fewer key/value heads than tp has
// devices, and a divisor of them. Then tp is two mesh axes (compiler/strategy/strategy.h): over the
// outer one heads are split with their queries, over the inner one queries alone, so that a device
// reads the one key/value head of its queries and gathers it from those that share it. Words of
// pins for tp are said of both axes.
Strategy with_key_heads(const Strategy& strategy, const LogicalGraph& training);

}  // namespace sextant
