// Groups of operators that the device has one kernel for become one operator of the staged graph.
#pragma once

#include "compiler/strategy/schedule.h"
#include "compiler/words/staged_graph.h"
#include "core/costs/cost_model.h"

namespace sextant {

// Whether `cost` has a kernel for any fused kind.
bool fuses_anything(const CostModel& cost);

// Where `cost.fuses` a kind of core/graphs/fused_kinds.h: its groups of compute operators on one
// stage, of one layer, phase and rate, largest first, in the order of the graph. Words are fixed by
// now and boxing is inserted, so no communication is inside a group. The fused operator stands
// where the last of them stood, with the list of members in the order of the kind, the tensors that
// others read as outputs and the rest inside. A group is left alone where somebody outside reads a
// result of it before that place, or where it keeps state. Where the schedule does not part them, a
// kind that joins gradients may take gradients of weights along with the gradient for the input,
// and is of that one's phase. The result passes validate() if the graph does, and runs with the
// same bits: a device without a kernel for the whole runs the members.
StagedGraph fuse_operators(StagedGraph graph, const CostModel& cost, Schedule schedule);

}  // namespace sextant
