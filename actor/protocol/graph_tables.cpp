// Each table and each list of waits is made once: whoever asks first makes it, others wait for it.
#include "actor/protocol/graph_tables.h"

namespace sextant {

const std::shared_ptr<const ProgramTables>& GraphTables::of(ProgramId program) const {
  OfProgram& known = programs_[program.index()];
  std::call_once(known.made,
                 [&] { known.tables = std::make_shared<const ProgramTables>(graph_, program); });
  return known.tables;
}

const ProgramWaits* GraphTables::direct_waits_of(ProgramId program) const {
  OfProgram& known = programs_[program.index()];
  std::call_once(known.sought, [&] { known.direct_waits = direct_waits(*of(program)); });
  return known.direct_waits ? &*known.direct_waits : nullptr;
}

const ProgramWaits& GraphTables::waits_of(ProgramId program) const {
  if (const ProgramWaits* direct = direct_waits_of(program)) return *direct;
  OfProgram& known = programs_[program.index()];
  std::call_once(known.stepped, [&] { known.stepped_waits = stepped_waits(*of(program)); });
  return *known.stepped_waits;
}

}  // namespace sextant
