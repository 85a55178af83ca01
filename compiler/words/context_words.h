// What context parallelism says about words: where the sequence is split, and, for the all-to-all
// form, where heads are split instead.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"
#include "sbp/inference.h"

#include <cstddef>
#include <optional>

namespace sextant {

// The dim that cp splits of an input of the graph: dim 1 where it counts the positions that
// attention sees; nothing for other inputs, or without cp.
std::optional<std::size_t> context_dim(const LogicalGraph& training, const Strategy& strategy,
                                       const Shape& input);

// The dim that cp splits of a parameter where an operator reads it beside positions that are split,
// if it must: that of a table of positions, which is added to them.
std::optional<std::size_t> context_read_dim(const LogicalGraph& training, const Strategy& strategy,
                                            const LogicalOp& op, std::size_t input);

// With cp_mode=ring the partial attention of a ring, and what rolls its operands, read them split
// over cp by positions. With cp_mode=a2a attention and its gradient read every operand split over
// cp by heads, and what they make is read split by positions again; boxing makes the all-to-alls.
// Throws Error(kInfeasible) for a graph without attention, or heads that cp x tp does not divide.
void add_context_words(const LogicalGraph& training, const Strategy& strategy,
                       WordConstraints& constraints);

}  // namespace sextant
