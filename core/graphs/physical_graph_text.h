// The text form of physical graphs; physical_graph_text.md has its grammar.
#pragma once

#include "core/graphs/physical_graph.h"

#include <string>
#include <string_view>

namespace sextant {

// One statement per line, in the order of the tables. Every graph has a text, valid or not.
std::string to_text(const PhysicalGraph& graph);

// The graph that has this text. Throws Error(kBadInput) with `origin`, line and column where a
// statement is malformed or a name is not that of exactly one thing. Positions written as numbers
// are taken as they are and rules are not checked: validate() does that.
PhysicalGraph physical_graph_from_text(std::string_view text,
                                       std::string origin = "physical graph");

}  // namespace sextant
