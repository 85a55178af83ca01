// Selective recomputation by operator, as torchtitan's option "op" does it: forward of a block runs
// again in backward, but for attention and every second product of the block, the first included,
// whose results are kept from forward.
#pragma once

#include "compiler/strategy/strategy.h"
#include "core/graphs/logical_graph.h"

#include <set>
#include <string>
#include <vector>

namespace sextant {

// By operator: kept by that rule. Embedding and head are no blocks and keep everything anyway.
std::vector<bool> kept_products(const LogicalGraph& training);
// Their names. They stay until backward of their layer even where nothing reads them there.
std::set<std::string> names_of(const LogicalGraph& training, const std::vector<bool>& operators);

}  // namespace sextant
