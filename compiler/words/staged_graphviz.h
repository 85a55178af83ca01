// A staged graph as Graphviz text: stages as clusters, boxing marked, transfers between clusters.
#pragma once

#include "compiler/words/staged_graph.h"

#include <string>

namespace sextant {

std::string to_graphviz(const StagedGraph& graph);

}  // namespace sextant
