// Physical graphs that tests keep as text, in tests/support/graphs.
#pragma once

#include "core/graphs/physical_graph.h"

#include <string>

namespace sextant::testing {

// Text of the file tests/PATH; throws Error(kBadInput) where there is none.
std::string test_file(const std::string& path);

// The graph of tests/support/graphs/NAME.txt.
PhysicalGraph graph_file(const std::string& name);

}  // namespace sextant::testing
