// What the rows of signatures of one operator say of its operands.
#pragma once

#include "core/graphs/logical_graph.h"
#include "core/graphs/operator.h"
#include "core/tensors/sbp.h"

#include <cstddef>
#include <vector>

namespace sextant {

// The rows of an operator of `graph`, for one mesh axis.
std::vector<SbpSignature> rows_of(const LogicalGraph& graph, const LogicalOp& op);

// Whether every dim may be split, in all operands of the output's shape at once.
bool works_on_shards(const LogicalGraph& graph, const LogicalOp& op);

// Whether it makes one value of each value of its only input.
bool is_elementwise(const LogicalGraph& graph, const LogicalOp& op);

// The operands with a value for each of that of `input`: what has its shape and is split where it
// is. The shape alone may be that of a control, which every part reads whole.
std::vector<std::size_t> operands_split_with(const LogicalGraph& graph, const LogicalOp& op,
                                             std::size_t input);

}  // namespace sextant
