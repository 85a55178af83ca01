// A small memory planner for test graphs: registers counted from the issue order, slots shared
// first-fit by lifetime in issue order, guards from actor/bytes/byte_order.
#pragma once

#include "core/graphs/physical_graph.h"

namespace sextant::testing {

// Sets num_registers of every frame to the most contents in flight under the program's order, and
// gives every content bytes of its own. Frames that a host actor touches get `host_registers` at
// most, but what the order needs.
void fit_registers(PhysicalGraph& graph);

// Lets frames share bytes: a content takes the lowest place that is free from its first write to
// its last read in issue order. State and what host actors touch keep bytes of their own.
void share_slots(PhysicalGraph& graph);

// Adds the missing guards to every program.
void add_guards(PhysicalGraph& graph);

}  // namespace sextant::testing
