// Graphs from files.
#include "tests/support/graph_files.h"

#include "core/base/check.h"
#include "core/graphs/physical_graph_text.h"

#include <fstream>
#include <iterator>

namespace sextant::testing {

std::string test_file(const std::string& path) {
  std::ifstream file(std::string(SEXTANT_SOURCE_ROOT) + "/tests/" + path);
  require(file.good(), ErrorCode::kBadInput, "tests/{} cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

PhysicalGraph graph_file(const std::string& name) {
  return physical_graph_from_text(test_file("support/graphs/" + name + ".txt"), name);
}

}  // namespace sextant::testing
