// Each table and each list of waits is made once: whoever asks first makes it, others wait for it.
#include "actor/protocol/graph_tables.h"

#include <cstddef>

namespace sextant {

GraphTables::GraphTables(const PhysicalGraph& graph, const GraphTables& unguarded,
                         const std::vector<bool>& is_same)
    : GraphTables(graph) {
  for (std::size_t p = 0; p < programs_.size(); ++p) {
    const OfProgram& known = unguarded.programs_[p];
    if (!is_same[p] || !known.tables) continue;
    OfProgram& own = programs_[p];
    std::call_once(own.made, [&] {
      own.tables = std::make_shared<const ProgramTables>(graph, ProgramId(p), *known.tables);
    });
    if (!known.is_sought) continue;
    std::call_once(own.sought, [&] {
      if (known.direct_waits) own.direct_waits = with_guards(*known.direct_waits, *own.tables);
      own.is_sought = true;
    });
  }
}

const std::shared_ptr<const ProgramTables>& GraphTables::of(ProgramId program) const {
  OfProgram& known = programs_[program.index()];
  std::call_once(known.made,
                 [&] { known.tables = std::make_shared<const ProgramTables>(graph_, program); });
  return known.tables;
}

const ProgramWaits* GraphTables::direct_waits_of(ProgramId program) const {
  OfProgram& known = programs_[program.index()];
  std::call_once(known.sought, [&] {
    known.direct_waits = direct_waits(*of(program));
    known.is_sought = true;
  });
  return known.direct_waits ? &*known.direct_waits : nullptr;
}

const ProgramWaits& GraphTables::waits_of(ProgramId program) const {
  if (const ProgramWaits* direct = direct_waits_of(program)) return *direct;
  OfProgram& known = programs_[program.index()];
  std::call_once(known.stepped, [&] { known.stepped_waits = stepped_waits(*of(program)); });
  return *known.stepped_waits;
}

}  // namespace sextant
