// The whole proof of a physical graph, once: valid, runs, orders its bytes.
#pragma once

#include "actor/protocol/graph_tables.h"
#include "actor/protocol/proven_graph.h"
#include "core/base/error.h"
#include "core/base/stop_poll.h"
#include "core/graphs/physical_graph.h"

#include <memory>

namespace sextant {

struct ProofChecks {
  bool byte_order = true;  // invariant 7; a graph without guards has nothing to show there
  // Of what is invalid or leaves bytes unordered. The compiler says kInternal: it is its own work.
  ErrorCode broken = ErrorCode::kInfeasible;
  StopPoll stop = {};  // asked between programs; what it throws ends the proof
};

// What is missing is said before what cannot run, and that before what is unordered: throws
// Error(checks.broken) with the first rule of validate() that the graph breaks, what dry_run()
// throws, and Error(checks.broken) with the first pair of uses that nothing orders. Programs are
// looked at in parallel.
ProvenGraph prove(std::shared_ptr<const PhysicalGraph> graph, const ProofChecks& checks = {});
// The proof with tables of this graph that others use too.
ProvenGraph prove(std::shared_ptr<const PhysicalGraph> graph,
                  std::shared_ptr<const GraphTables> tables, const ProofChecks& checks = {});
// The proof of a graph that outlives every copy of the result and does not change.
ProvenGraph prove(const PhysicalGraph& graph, const ProofChecks& checks = {});

}  // namespace sextant
