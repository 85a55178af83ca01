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
#include <utility>
#include <vector>

namespace sextant {

struct DryRun;

// From any thread. `graph` outlives it; a program that has changed since its tables were made has
// the old ones here.
class GraphTables {
 public:
  explicit GraphTables(const PhysicalGraph& graph)
      : graph_(graph), programs_(graph.programs.size()) {}
  // Tables of a graph that was the graph of `unguarded` before it got its guards. What was made
  // there for programs that are the same in all else serves here, with the guards added. `is_same`
  // has one entry per program. Nobody asks `unguarded` any more: tables that nobody else holds are
  // taken and not copied.
  GraphTables(const PhysicalGraph& graph, GraphTables&& unguarded,
              const std::vector<bool>& is_same);
  // Throws what ProgramTables() throws.
  const std::shared_ptr<const ProgramTables>& of(ProgramId program) const;
  // Whether positions in the order show that a program can run alone. Guards wait for what was
  // issued before: a program can with them where it could without.
  bool is_direct(ProgramId program) const;
  // Waits of such a program, or null.
  const ProgramWaits* direct_waits_of(ProgramId program) const;
  // Waits of a program that can run alone.
  const ProgramWaits& waits_of(ProgramId program) const;

  // The dry run for one rank per class that was kept, or null. It knows of no slots and no guards,
  // so tables of a graph that got these have it too.
  std::shared_ptr<const DryRun> known_dry_run() const;
  void keep(std::shared_ptr<const DryRun> dry_run) const;

 private:
  struct OfProgram {
    void keep(std::shared_ptr<ProgramTables> made_tables) {
      own = std::move(made_tables);
      tables = own;
    }
    // The tables, of which others may have a copy.
    ProgramTables take() {
      const bool is_shared = own.use_count() > 2;  // more than here
      return is_shared ? ProgramTables(*own) : std::move(*own);
    }
    std::once_flag made, sought, guarded, stepped;
    std::shared_ptr<ProgramTables> own;  // those of `tables`
    std::shared_ptr<const ProgramTables> tables;
    bool is_sought = false;
    std::shared_ptr<const ProgramWaits> direct_waits;  // if sought here
    // What was found before the program got its guards, and the same with them: most who ask want
    // to know no more than that there is something.
    std::shared_ptr<const ProgramWaits> unguarded_waits;
    std::optional<ProgramWaits> guarded_waits, stepped_waits;
  };
  const PhysicalGraph& graph_;
  mutable std::vector<OfProgram> programs_;
  mutable std::mutex dry_run_mutex_;
  mutable std::shared_ptr<const DryRun> dry_run_;
};

}  // namespace sextant
