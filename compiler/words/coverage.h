// Nothing is lost and nothing is done twice on the way from the logical to the physical graph.
#pragma once

#include "compiler/words/staged_graph.h"
#include "core/graphs/logical_graph.h"
#include "core/graphs/physical_graph.h"

#include <string>
#include <vector>

namespace sextant {

// Every layer of the training graph is on exactly one stage: one message per layer that is missing
// and per operator that is on two stages. (Operators that nobody needs may be missing.)
std::vector<std::string> check_layers(const LogicalGraph& training, const StagedGraph& staged);

// Every program does exactly the operators of its stage: one message per layer that is missing from
// a program, done there twice, or incomplete.
std::vector<std::string> check_layers(const StagedGraph& staged, const PhysicalGraph& graph);

}  // namespace sextant
