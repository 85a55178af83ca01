// Program tables of a whole graph and the waits that follow from them, each made when first asked
// for and shared by all who ask.
#pragma once

#include "actor/protocol/program_tables.h"
#include "actor/protocol/program_waits.h"
#include "core/base/ids.h"
#include "core/graphs/physical_graph.h"

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace sextant {

// From any thread. `graph` outlives it; a program that has changed since its tables were made has
// the old ones here.
class GraphTables {
 public:
  explicit GraphTables(const PhysicalGraph& graph)
      : graph_(graph), programs_(graph.programs.size()) {}
  // Tables of a graph that was the graph of `unguarded` before it got its guards. What was made
  // there for programs that are the same in all else serves here, with the guards added. `is_same`
  // has one entry per program. Nobody asks `unguarded` meanwhile.
  GraphTables(const PhysicalGraph& graph, const GraphTables& unguarded,
              const std::vector<bool>& is_same);
  // Throws what ProgramTables() throws.
  const std::shared_ptr<const ProgramTables>& of(ProgramId program) const;
  // Waits of a program that can run alone, if positions in the order show that it can; else null.
  const ProgramWaits* direct_waits_of(ProgramId program) const;
  // Waits of a program that can run alone.
  const ProgramWaits& waits_of(ProgramId program) const;

 private:
  struct OfProgram {
    std::once_flag made, sought, stepped;
    bool is_sought = false;
    std::shared_ptr<const ProgramTables> tables;
    std::optional<ProgramWaits> direct_waits, stepped_waits;
  };
  const PhysicalGraph& graph_;
  mutable std::vector<OfProgram> programs_;
};

}  // namespace sextant
