// Memory that a plan leaves free, spent where the reuse of bytes makes a step wait. The memory plan
// goes by the times of the issue order; but ranks wait for each other, so some contents are used
// longer than that, and a guard holds up who wants their bytes. Lives by the times of the whole
// step without guards mostly take more bytes, and nobody waits.
#pragma once

#include "actor/protocol/graph_tables.h"
#include "compiler/memory/memory_plan.h"
#include "core/base/stop_poll.h"
#include "core/base/units.h"
#include "core/costs/arena_room.h"
#include "core/costs/cost_model.h"
#include "core/graphs/physical_graph.h"

#include <memory>
#include <vector>

namespace sextant {

// By program, as vectors of the graph are.
using GuardsOfPrograms = std::vector<std::vector<Guard>>;

// Gives the programs of a stage longer lives where guards delay the step by more than half a
// thousandth, some guard of that stage makes its run wait, and the room of all its programs
// suffices, for the tight plan as well: their slots, offsets, arenas, guards and `packed` are then
// new; lower bounds stay those of the tight plan. Stage by stage, so that symmetric bytes stay
// symmetric. Of a plan with a program that does not fit everything stays. `graph` has no guards
// yet: `guards` are those it needs; `tables` are of this graph. Says of which programs, of all,
// the tables still hold: slots are not in them, numbers of registers are.
std::vector<bool> spend_spare_memory(PhysicalGraph& graph,
                                     const std::shared_ptr<const GraphTables>& tables,
                                     GuardsOfPrograms& guards, std::vector<PackedProgram>& packed,
                                     const ArenaRoom& room, const CostModel& cost,
                                     const NetworkModel& network, const StopPoll& stop);

}  // namespace sextant
