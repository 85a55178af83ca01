// Each table and each list of waits is made once: whoever asks first makes it, others wait for it.
#include "actor/protocol/graph_tables.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace sextant {

GraphTables::GraphTables(const PhysicalGraph& graph, GraphTables&& unguarded,
                         const std::vector<bool>& is_same)
    : GraphTables(graph) {
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    OfProgram& known = unguarded.programs_[p];
    if (!is_same[p] || !known.tables) continue;
    OfProgram& own = programs_[p];
    std::call_once(own.made, [&] {
      own.keep(std::make_shared<ProgramTables>(graph, ProgramId(p), known.take()));
    });
    if (!known.is_sought) continue;
    std::call_once(own.sought, [&] {
      own.unguarded_waits = known.unguarded_waits ? known.unguarded_waits : known.direct_waits;
      own.is_sought = true;
    });
  }
  if (std::all_of(is_same.begin(), is_same.end(), [](bool same) { return same; }))
    keep(unguarded.known_dry_run());
}

const std::shared_ptr<const ProgramTables>& GraphTables::of(ProgramId program) const {
  OfProgram& known = programs_[program.index()];
  std::call_once(known.made, [&] { known.keep(std::make_shared<ProgramTables>(graph_, program)); });
  return known.tables;
}

bool GraphTables::is_direct(ProgramId program) const {
  OfProgram& known = programs_[program.index()];
  std::call_once(known.sought, [&] {
    if (std::optional<ProgramWaits> waits = direct_waits(*of(program)))
      known.direct_waits = std::make_shared<const ProgramWaits>(*std::move(waits));
    known.is_sought = true;
  });
  return known.unguarded_waits || known.direct_waits;
}

const ProgramWaits* GraphTables::direct_waits_of(ProgramId program) const {
  OfProgram& known = programs_[program.index()];
  if (!is_direct(program)) return nullptr;
  if (!known.unguarded_waits) return known.direct_waits.get();
  std::call_once(known.guarded,
                 [&] { known.guarded_waits = with_guards(*known.unguarded_waits, *of(program)); });
  return &*known.guarded_waits;
}

const ProgramWaits& GraphTables::waits_of(ProgramId program) const {
  if (const ProgramWaits* direct = direct_waits_of(program)) return *direct;
  OfProgram& known = programs_[program.index()];
  std::call_once(known.stepped, [&] { known.stepped_waits = stepped_waits(*of(program)); });
  return *known.stepped_waits;
}

std::shared_ptr<const DryRun> GraphTables::known_dry_run() const {
  const std::lock_guard lock(dry_run_mutex_);
  return dry_run_;
}

void GraphTables::keep(std::shared_ptr<const DryRun> dry_run) const {
  const std::lock_guard lock(dry_run_mutex_);
  dry_run_ = std::move(dry_run);
}

}  // namespace sextant
