// Tapes of graphs that tests make by hand.
#pragma once

#include "actor/protocol/proven_graph.h"
#include "actor/tapes/tape.h"

namespace sextant::testing {

// One rank per class of the graph. `graph` outlives the tape.
inline Tape record_step(const PhysicalGraph& graph) {
  const ProvenGraph proven(graph);
  return record(proven, proven.classes());
}

inline Tape record_all_ranks(const PhysicalGraph& graph) {
  return record(ProvenGraph(graph), all_ranks(graph));
}

}  // namespace sextant::testing
