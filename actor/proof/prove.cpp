// Rules first, then the dry run and the byte order of every program side by side.
#include "actor/proof/prove.h"

#include "actor/bytes/byte_order.h"
#include "core/base/check.h"
#include "core/base/parallel.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sextant {
namespace {

void require_none(const std::vector<std::string>& found, ErrorCode code, const char* what) {
  require(found.empty(), code, "{}: {}", what, found.empty() ? "" : found.front());
}

}  // namespace

ProvenGraph prove(std::shared_ptr<const PhysicalGraph> graph, const ProofChecks& checks) {
  const auto tables = std::make_shared<const GraphTables>(*graph);
  return prove(std::move(graph), tables, checks);
}

ProvenGraph prove(std::shared_ptr<const PhysicalGraph> graph,
                  std::shared_ptr<const GraphTables> tables, const ProofChecks& checks) {
  require_none(validate(*graph), checks.broken, "the graph is not valid");
  const std::size_t programs = checks.byte_order ? graph->programs.size() : 0;
  std::optional<ProvenGraph> proven;
  // An error of an earlier task is the one that is rethrown, so the dry run comes first.
  for_each_in_parallel(programs + 1, [&](std::size_t task) {
    checks.stop();
    if (task == 0) {
      proven.emplace(graph, tables);
      return;
    }
    const ProgramId program(task - 1);
    require_none(check_byte_order(*graph, program, tables->of(program)), checks.broken,
                 "bytes are used without order");
  });
  return *proven;
}

ProvenGraph prove(const PhysicalGraph& graph, const ProofChecks& checks) {
  return prove(refer_to(graph), checks);
}

}  // namespace sextant
